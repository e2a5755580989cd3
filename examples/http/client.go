// A client in Go, of the standard library alone:
//
//	go run client.go post PREFIX URL...    publishes each line of standard input, once
//	go run client.go follow URL...         prints the text of each message, once
//
// Name several nodes, best of one site: when one does not answer the next one is asked. RELAY_TOKEN holds the token of nodes
// that want one.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	pause    = 200 * time.Millisecond
	keysMax  = 65536
	lineSize = 16 << 20
)

// Message is the data of an event of the kind "message".
type Message struct {
	ID     []any  `json:"id"` // site, sender, scope, number
	Key    string `json:"key"`
	Text   string `json:"text"`
	Base64 string `json:"base64"`
}

// Client talks to one of several nodes at a time.
type Client struct {
	urls    []string // the first one is asked
	token   string
	reached map[string]float64 // sender -> the number of its last message
	keys    map[string]bool
	oldest  []string // keys in the order in which they came
}

// NewClient makes a client of these nodes.
func NewClient(urls []string) *Client {
	return &Client{urls: urls, token: os.Getenv("RELAY_TOKEN"), reached: map[string]float64{}, keys: map[string]bool{}}
}

func (c *Client) do(method, url, body string, headers map[string]string) (*http.Response, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	return http.DefaultClient.Do(request)
}

// turn makes the next node the one that is asked.
func (c *Client) turn() { c.urls = append(c.urls[1:], c.urls[0]) }

// Post publishes a message. It may be called again with the same key, also by another process: everybody is shown it once.
func (c *Client) Post(text, key string) error {
	headers := map[string]string{"Idempotency-Key": key, "Content-Type": "text/plain"}
	for ; ; c.turn() {
		answer, err := c.do("POST", c.urls[0]+"/messages", text, headers)
		wait := pause
		if err == nil {
			said, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			if answer.StatusCode < 500 && answer.StatusCode != http.StatusTooManyRequests {
				return fmt.Errorf("%s: %s", answer.Status, said)
			}
			if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
				wait = time.Duration(seconds) * time.Second
			}
		}
		time.Sleep(wait)
	}
}

// Follow hands every event over, of one node after the other; messages that were there before are left out.
func (c *Client) Follow(hear func(kind, data string)) {
	last := ""
	for ; ; c.turn() {
		headers := map[string]string{}
		if last != "" {
			headers["Last-Event-ID"] = last
		}
		answer, err := c.do("GET", c.urls[0]+"/events?from=oldest", "", headers)
		if err == nil && answer.StatusCode == http.StatusOK {
			last = c.read(answer.Body, last, hear)
		}
		if err == nil {
			answer.Body.Close()
		}
		time.Sleep(pause)
	}
}

func (c *Client) read(body io.Reader, last string, hear func(kind, data string)) string {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, lineSize)
	kind, id := "", ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			kind = value
		case "id":
			id = value
		case "data":
			if kind != "message" || c.isNew(value) {
				hear(kind, value)
			}
			last = id
		}
	}
	return last
}

// isNew: a message with a key is known by that, since two nodes may show different copies of it; others by their ids.
func (c *Client) isNew(data string) bool {
	var message Message
	if json.Unmarshal([]byte(data), &message) != nil || len(message.ID) != 4 {
		return false
	}
	if message.Key == "" {
		sender := fmt.Sprint(message.ID[:3])
		number, _ := message.ID[3].(float64)
		isNew := number > c.reached[sender]
		c.reached[sender] = max(number, c.reached[sender])
		return isNew
	}
	if c.keys[message.Key] {
		return false
	}
	c.keys[message.Key] = true
	if c.oldest = append(c.oldest, message.Key); len(c.oldest) > keysMax {
		delete(c.keys, c.oldest[0])
		c.oldest = c.oldest[1:]
	}
	return true
}

func main() {
	if len(os.Args) > 3 && os.Args[1] == "post" {
		client, number := NewClient(os.Args[3:]), 0
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			number++
			if err := client.Post(lines.Text(), fmt.Sprintf("%s-%d", os.Args[2], number)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		return
	}
	NewClient(os.Args[2:]).Follow(func(kind, data string) {
		var message Message
		if kind == "message" && json.Unmarshal([]byte(data), &message) == nil {
			fmt.Println(message.Text + message.Base64)
		} else if kind == "gap" {
			fmt.Fprintln(os.Stderr, "gap:", data)
		}
	})
}
