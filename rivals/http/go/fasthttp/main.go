// fasthttp with one route, on one thread.
package main

import (
	"log"
	"os"
	"runtime"

	"github.com/valyala/fasthttp"
)

func main() {
	runtime.GOMAXPROCS(1)
	server := &fasthttp.Server{
		NoDefaultServerHeader: true,
		Handler: func(ctx *fasthttp.RequestCtx) {
			if string(ctx.Path()) != "/plaintext" {
				ctx.SetStatusCode(404)
				return
			}
			ctx.SetContentType("text/plain")
			ctx.SetBodyString("Hello, World!")
		},
	}
	log.Fatal(server.ListenAndServe(os.Args[1]))
}
