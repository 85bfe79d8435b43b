// Prints tag, number of samples and p99 of each histogram of a log, by HdrHistogram for JavaScript.
const { HistogramLogReader } = require("hdr-histogram-js");
const log = new HistogramLogReader(require("fs").readFileSync(process.argv[2], "utf8"));
for (let one = log.nextIntervalHistogram(); one !== null; one = log.nextIntervalHistogram()) {
  console.log(one.tag, one.totalCount, one.getValueAtPercentile(99));
}
