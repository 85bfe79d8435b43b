// gnet on one loop: requests are counted by the empty line that ends them, not parsed.
package main

import (
	"bytes"
	"log"
	"os"

	"github.com/panjf2000/gnet/v2"
)

var answer = []byte("HTTP/1.1 200 OK\r\nServer: gnet\r\nContent-Type: text/plain\r\n" +
	"Content-Length: 13\r\n\r\nHello, World!")

type hello struct {
	gnet.BuiltinEventEngine
	out []byte
}

func (h *hello) OnTraffic(c gnet.Conn) gnet.Action {
	data, _ := c.Peek(-1)
	used := 0
	h.out = h.out[:0]
	for {
		end := bytes.Index(data[used:], []byte("\r\n\r\n"))
		if end < 0 {
			break
		}
		used += end + 4
		h.out = append(h.out, answer...)
	}
	_, _ = c.Discard(used)
	_, _ = c.Write(h.out)
	return gnet.None
}

func main() {
	log.Fatal(gnet.Run(&hello{}, "tcp://"+os.Args[1], gnet.WithNumEventLoop(1)))
}
