// Go's net/http with one route, on one thread.
package main

import (
	"log"
	"net/http"
	"os"
	"runtime"
)

func main() {
	runtime.GOMAXPROCS(1)
	http.HandleFunc("/plaintext", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("Hello, World!"))
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
