// A client in Go, of the standard library alone:
//
//	go run client.go post PREFIX URL...    publishes each line of standard input, once
//	go run client.go follow URL...         prints the text of each message, once
//
// Name several nodes, best of one site: when one does not answer the next one is asked. RELAY_TOKEN holds the token of nodes
// that want one. A message that no node has taken for half an hour, or RELAY_GIVE_UP_S seconds, is given up.
package main

import (
	"bufio"
	"context"
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
	attempt  = 20 * time.Second // a node answers or refuses sooner
	giveUp   = 30 * time.Minute // members know a key for an hour, and would show again what is posted later
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
	giveUp  time.Duration
	silence time.Duration // a stream has a comment every 15 s
}

// NewClient makes a client of these nodes.
func NewClient(urls []string) *Client {
	client := &Client{urls: urls, token: os.Getenv("RELAY_TOKEN")}
	client.reached, client.keys = map[string]float64{}, map[string]bool{}
	client.giveUp, client.silence = seconds("RELAY_GIVE_UP_S", giveUp), seconds("RELAY_SILENCE_S", 30*time.Second)
	return client
}

func seconds(name string, usual time.Duration) time.Duration {
	if given, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return time.Duration(given) * time.Second
	}
	return usual
}

func (c *Client) do(ctx context.Context, method, url, body string, headers map[string]string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
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
	ends := time.Now().Add(c.giveUp)
	for ; ; c.turn() {
		ctx, end := context.WithTimeout(context.Background(), attempt)
		answer, err := c.do(ctx, "POST", c.urls[0]+"/messages", text, headers)
		wait, last, said := pause, "no answer", []byte{}
		if err == nil {
			last = answer.Status
			said, _ = io.ReadAll(answer.Body)
			answer.Body.Close()
		}
		end()
		if err == nil {
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			isTooSlow := answer.StatusCode == http.StatusRequestTimeout || answer.StatusCode == http.StatusTooManyRequests
			if answer.StatusCode < 500 && !isTooSlow {
				return fmt.Errorf("%s: %s", answer.Status, said)
			}
			if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
				wait = time.Duration(seconds) * time.Second
			}
		}
		if time.Now().Add(wait).After(ends) {
			return fmt.Errorf("%s: not taken in time, at last %s", key, last)
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
		ctx, end := context.WithCancel(context.Background())
		patience := time.AfterFunc(c.silence, end)
		answer, err := c.do(ctx, "GET", c.urls[0]+"/events?from=oldest", "", headers)
		if err == nil && answer.StatusCode == http.StatusOK {
			last = c.read(answer.Body, last, func() { patience.Reset(c.silence) }, hear)
		} else if err == nil {
			fmt.Fprintf(os.Stderr, "%s: %s\n", c.urls[0], answer.Status)
		}
		if err == nil {
			answer.Body.Close()
		}
		end()
		time.Sleep(pause)
	}
}

func (c *Client) read(body io.Reader, last string, heard func(), hear func(kind, data string)) string {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, lineSize)
	kind, id, data := "", "", ""
	for lines.Scan() {
		heard()
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			kind = value
		case "id":
			id = value
		case "data":
			data = value
		case "": // the end of an event, which is whole only now
			if data != "" && (kind != "message" || c.isNew(data, id)) {
				hear(kind, data)
			}
			if data != "" {
				last, data = id, ""
			}
		}
	}
	return last
}

// isNew: messages are known by their ids, since the numbers of a sender count upwards, and by their keys, since two nodes may
// show different copies of one.
func (c *Client) isNew(data, id string) bool {
	var message Message
	if json.Unmarshal([]byte(data), &message) != nil || len(message.ID) != 4 {
		return false
	}
	sender := fmt.Sprint(message.ID[:3])
	number, _ := message.ID[3].(float64)
	if scope := message.ID[2]; scope == "unicast" || scope == "oob" { // to one member: numbered for each
		run, at, _ := strings.Cut(id, "-")
		sender = run
		number, _ = strconv.ParseFloat(at, 64)
	}
	if number <= c.reached[sender] {
		return false
	}
	c.reached[sender] = number
	if message.Key == "" {
		return true
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
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, lineSize)
		for lines.Scan() {
			number++
			if err := client.Post(lines.Text(), fmt.Sprintf("%s-%d", os.Args[2], number)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		if err := lines.Err(); err != nil {
			fmt.Fprintf(os.Stderr, "after line %d: %s\n", number, err)
			os.Exit(1)
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
