// Go's net/http at the examples. Arguments: the addresses of hello_http, json, upload, stream,
// events and files.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const count = 100000

var (
	checks atomic.Int64
	urls   = map[string]string{}
	body   = bytes.Repeat([]byte("0123456789abcde\n"), 200000)
	// It waits for permission before it sends a body that asks for it.
	client = &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 16, ExpectContinueTimeout: 10 * time.Second},
	}
)

func check(fine bool, what ...any) {
	if !fine {
		fmt.Println(append([]any{"failed:"}, what...)...)
		os.Exit(1)
	}
	checks.Add(1)
}

// ask sends a request and reads the whole answer.
func ask(method, url string, content io.Reader, fields ...string) (*http.Response, string) {
	request, err := http.NewRequest(method, url, content)
	check(err == nil, url, err)
	for at := 0; at+1 < len(fields); at += 2 {
		request.Header.Set(fields[at], fields[at+1])
	}
	answer, err := client.Do(request)
	check(err == nil, url, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(err == nil, url, err)
	return answer, string(text)
}

// hidden keeps the length of a body from the client, which then sends it in chunks.
type hidden struct{ io.Reader }

func main() {
	for at, name := range []string{"hello", "json", "upload", "stream", "events", "files"} {
		urls[name] = "http://" + os.Args[at+1]
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 25 {
				answer, text := ask("GET", urls["hello"], nil)
				check(answer.StatusCode == 200 && text == "Hello, World!", text)
			}
		})
	}
	all.Wait()
	answer, text := ask("HEAD", urls["hello"], nil)
	check(answer.ContentLength == 13 && text == "", answer.ContentLength)
	_, text = ask("POST", urls["json"]+"/sum", strings.NewReader("[1, 2, 3.5]"))
	check(text == `{"sum":6.5}`, text)

	for path, content := range map[string]io.Reader{
		"/go":         bytes.NewReader(body),
		"/go-chunked": hidden{bytes.NewReader(body)},
	} {
		answer, _ = ask("PUT", urls["upload"]+path, content, "Expect", "100-continue")
		check(answer.StatusCode == 201, path, answer.Status)
		_, text = ask("GET", urls["upload"]+path, nil)
		check(text == string(body), path)
	}
	// Refused from the head, before the body is sent.
	answer, _ = ask("PUT", urls["upload"]+"/go", bytes.NewReader(body), "Expect", "100-continue")
	check(answer.StatusCode == 409, answer.Status)

	answer, text = ask("GET", fmt.Sprintf("%s/count?%d", urls["stream"], count), nil)
	check(strings.Count(text, "\n") == count && strings.HasSuffix(text, "\n100000\n"))
	check(answer.Trailer.Get("Sum") == "5000050000", answer.Trailer)

	answer, text = ask("GET", urls["files"]+"/page", nil, "Range", "bytes=10-99")
	check(answer.StatusCode == 206 && len(text) == 90 && text[0] == 10, answer.Status)
	answer, _ = ask("GET", urls["files"]+"/page-missing", nil)
	check(answer.StatusCode == 404, answer.Status)

	request, _ := http.NewRequest("GET", urls["events"]+"/events", nil)
	events, err := client.Do(request)
	check(err == nil, err)
	answer, _ = ask("POST", urls["events"]+"/post", strings.NewReader("from Go"))
	check(answer.StatusCode == 202, answer.Status)
	lines := bufio.NewScanner(events.Body)
	found := false
	for !found && lines.Scan() {
		found = lines.Text() == "data: from Go"
	}
	check(found, "no event", lines.Err())
	events.Body.Close()
	fmt.Println(checks.Load(), "checks passed")
}
