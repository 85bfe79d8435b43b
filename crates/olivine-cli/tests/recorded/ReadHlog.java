import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;

/** Prints tag, number of samples and p99 of each histogram of a log, by HdrHistogram for Java. */
class ReadHlog {
    public static void main(String[] arguments) throws Exception {
        HistogramLogReader log = new HistogramLogReader(arguments[0]);
        while (log.hasNext()) {
            Histogram one = (Histogram) log.nextIntervalHistogram();
            long p99 = one.getValueAtPercentile(99);
            System.out.println(one.getTag() + " " + one.getTotalCount() + " " + p99);
        }
    }
}
