package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"
)

var nan = math.NaN()

// progress writes to stderr what is done, at what rate, and how long the rest of it
// will take. On a terminal it rewrites its line; elsewhere it writes one every ten
// seconds.
type progress struct {
	out      io.Writer
	terminal bool

	mu           sync.Mutex
	title, what  string
	began, shown time.Time
	first        int
	width        int
}

// begin names the case that is running.
func (p *progress) begin(title string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.title, p.what, p.began, p.shown = title, "", time.Time{}, time.Now()
	p.line(title, p.terminal)
}

// step is for work that is not measured, measured for runs.
func (p *progress) step(done, total int)                  { p.show("", done, total) }
func (p *progress) measured(metric string, done, all int) { p.show(metric+", run", done, all) }

func (p *progress) show(what string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if what != p.what || p.began.IsZero() || done < p.first {
		p.what, p.began, p.first = what, now, done
	}
	pause := 10 * time.Second
	if p.terminal {
		pause = 200 * time.Millisecond
	}
	if now.Sub(p.shown) < pause {
		return
	}
	p.shown = now
	text := fmt.Sprintf("%s: %s %s of %s", p.title, what, number(float64(done)), number(float64(total)))
	if took := now.Sub(p.began).Seconds(); took > 0 && done > p.first {
		rate := float64(done-p.first) / took
		text += fmt.Sprintf(", %s/s, %.0f s left", number(rate), float64(total-done)/rate)
	}
	p.line(text, p.terminal)
}

// end writes how a case went.
func (p *progress) end(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(text, false)
}

// line writes a line that the next one replaces if passing.
func (p *progress) line(text string, passing bool) {
	if p.terminal {
		pad := max(p.width-len(text), 0)
		text = "\r" + text + strings.Repeat(" ", pad)
		p.width = len(text)
	}
	if !passing {
		text += "\n"
		p.width = 0
	}
	_, _ = io.WriteString(p.out, text)
}

// number writes a number for people: 4,320,000, 12.3, 0.0042.
func number(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 1000 {
		s := fmt.Sprintf("%.0f", math.Abs(v))
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		if v < 0 {
			s = "-" + s
		}
		return s
	}
	return fmt.Sprintf("%.3g", v)
}
