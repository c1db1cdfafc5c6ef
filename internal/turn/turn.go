// Package turn has the calls of this process that write the same documents wait for each other. Without it their
// transactions conflict: the server refuses all but one, and each of the others pauses and begins again.
package turn

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// patience is how long a call waits for its turn. The call in front of it may wait for an answer that does not come,
// long after the server has ended its transaction.
var patience = time.Second // a test changes it

// A Document is named by its namespace and _id. Two names of the same one cost conflicts and nothing else.
type Document struct {
	Client *mongo.Client
	Name   string
}

var (
	mu sync.Mutex
	// lines has the documents at which a call has its turn, each with the calls that wait behind it.
	lines = map[Document][]chan struct{}{}
)

// A Turn is the documents at which a call has its turn.
type Turn []Document

// Take waits until it is the call's turn at all these documents, for a second at most, or until ctx ends. Documents
// that it has waited for in vain are missing from the result, and those after them. The call writes all the same,
// because turns save conflicts and nothing relies on them. All calls wait in the order of the names, so that no two
// wait for each other. No document may be named twice. waited reports whether another call had its turn before.
func Take(ctx context.Context, all []Document) (t Turn, waited bool) {
	until := time.Now().Add(patience)
	for _, of := range slices.SortedFunc(slices.Values(all), func(a, b Document) int { return strings.Compare(a.Name, b.Name) }) {
		if came := enter(of); came != nil {
			waited = true
			if !wait(ctx, of, came, until) {
				break
			}
		}
		t = append(t, of)
	}
	return t, waited
}

// End ends the turn, so that others have theirs.
func (t Turn) End() {
	for _, of := range t {
		end(of)
	}
}

// wait reports whether the turn at a document came before that time and before ctx ended.
func wait(ctx context.Context, of Document, came chan struct{}, until time.Time) bool {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-came:
		return true
	case <-ctx.Done():
		giveUp(of, came)
		return false
	}
}

// enter returns nil if nobody has the turn, else what is closed when it comes.
func enter(of Document) (came chan struct{}) {
	mu.Lock()
	defer mu.Unlock()
	behind, taken := lines[of]
	if taken {
		came = make(chan struct{})
		behind = append(behind, came)
	}
	lines[of] = behind
	return came
}

func giveUp(of Document, came chan struct{}) {
	mu.Lock()
	i := slices.Index(lines[of], came)
	if i >= 0 {
		lines[of] = slices.Delete(lines[of], i, i+1)
	}
	mu.Unlock()
	if i < 0 { // it has just come
		end(of)
	}
}

func end(of Document) {
	mu.Lock()
	defer mu.Unlock()
	behind := lines[of]
	if len(behind) == 0 {
		delete(lines, of)
		return
	}
	close(behind[0])
	lines[of] = behind[1:]
}
