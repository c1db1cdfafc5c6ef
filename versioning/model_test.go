package versioning_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// past is a revision in the model.
type past struct {
	at      time.Time
	author  string
	deleted bool
	state   bson.D // _id first, without number and change
}

// model is the history of one document, revision 1 first, and the number of the
// first one that is kept.
type model struct {
	all  []past
	kept int
}

func (m *model) last() *past {
	if len(m.all) == 0 {
		return nil
	}
	return &m.all[len(m.all)-1]
}

func (m *model) current() bool { return m.last() != nil && !m.last().deleted }

// randomState is a policy with a list and something inside, most of it as before.
func randomState(r *rand.Rand, id string, before bson.D) bson.D {
	if before == nil || r.IntN(10) == 0 {
		return bson.D{{Key: "_id", Value: id}, {Key: "items", Value: bson.A{}}, {Key: "owner", Value: bson.D{{Key: "name", Value: "Bilbo"}, {Key: "n", Value: 0}}},
			{Key: "text", Value: "some text that makes the document larger than its changes"}}
	}
	out := bson.D{before[0]}
	for _, e := range before[1:] {
		switch v := e.Value.(type) {
		case bson.A:
			v = append(bson.A{}, v...)
			switch r.IntN(4) {
			case 0:
				i := r.IntN(len(v) + 1)
				v = append(v[:i:i], append(bson.A{bson.D{{Key: "name", Value: fmt.Sprint("item ", r.IntN(5))}, {Key: "price", Value: int64(r.IntN(5))}}}, v[i:]...)...)
			case 1:
				if len(v) > 0 {
					i := r.IntN(len(v))
					v = append(v[:i:i], v[i+1:]...)
				}
			case 2:
				if len(v) > 0 {
					v[r.IntN(len(v))] = bson.D{{Key: "name", Value: "changed"}, {Key: "price", Value: float64(r.IntN(3))}}
				}
			}
			e.Value = v
		case bson.D:
			e.Value = bson.D{v[0], {Key: "n", Value: []any{1, int64(1), 1.0, "1"}[r.IntN(4)]}}
		}
		if e.Key != "extra" || r.IntN(2) == 0 {
			out = append(out, e)
		}
	}
	if testkit.Get(out, "extra") == nil && r.IntN(3) == 0 {
		out = append(out, bson.E{Key: "extra", Value: bson.NewDateTimeFromTime(start)})
	}
	return out
}

// Every read of a random history agrees with a model, however it is stored, also
// where the option changed on the way.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		every []int
	}{{"snapshots", []int{1}}, {"deltas", []int{5}}, {"deltas only", []int{1000}}, {"mixed", []int{4, 1, 7}}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			ctx := t.Context()
			r := rand.New(rand.NewPCG(7, uint64(len(test.name))))
			var helpers []*versioning.History[string, bson.D]
			for _, every := range test.every {
				helpers = append(helpers, helper[string, bson.D](t, db, &versioning.Options{SnapshotEvery: every}))
			}
			models := map[string]*model{"a": {kept: 1}, "b": {kept: 1}}
			clock := start
			steps := scale.Of(40, 120, 300)
			for step := range steps {
				d := helpers[r.IntN(len(helpers))]
				id := []string{"a", "b"}[r.IntN(2)]
				m := models[id]
				if r.IntN(4) > 0 { // else the same millisecond
					clock = clock.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
				}
				change := by(fmt.Sprint("author ", step), "", clock)
				var err error
				switch op := r.IntN(12); {
				case !m.current() && op < 8:
					state := randomState(r, id, nil)
					if _, err = d.Insert(ctx, state, change); err == nil {
						m.all = append(m.all, past{clock, change.Author, false, state})
					}
				case m.current() && op < 9:
					state := randomState(r, id, m.last().state)
					var saved versioning.Revision[bson.D]
					saved, err = d.Save(ctx, versioning.Revision[bson.D]{Number: int64(len(m.all)), Document: state}, change)
					if err == nil && saved.Number > int64(len(m.all)) {
						m.all = append(m.all, past{clock, change.Author, false, state})
					} else if err == nil && !sameState(t, state, m.last().state) {
						t.Fatalf("no revision for %v after %v", state, m.last().state)
					}
				case m.current() && op == 9:
					if err = d.Delete(ctx, id, int64(len(m.all)), change); err == nil {
						m.all = append(m.all, past{at: clock, author: change.Author, deleted: true})
					}
				case op == 10 && len(m.all) > 0:
					n := m.kept + r.IntN(len(m.all)-m.kept+1)
					if m.all[n-1].deleted {
						continue
					}
					var back versioning.Revision[bson.D]
					if back, err = d.Restore(ctx, id, int64(n), change); err == nil && back.Number > int64(len(m.all)) {
						m.all = append(m.all, past{clock, change.Author, false, m.all[n-1].state})
					}
				case op == 11 && step > steps/3 && r.IntN(3) == 0:
					keep := 1 + r.IntN(12)
					if _, err = d.Prune(ctx, versioning.Retention{Keep: keep}, of(id)); err == nil {
						older := len(m.all)
						if m.current() {
							older--
						}
						m.kept = max(m.kept, older-keep+1)
					}
				}
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
			}
			d := helpers[0]
			for id, m := range models {
				compare(t, d, id, m, clock)
			}
			testkit.Healthy(t, d)
		})
	}
}

func sameState(t *testing.T, a, b bson.D) bool {
	t.Helper()
	return len(versioning.Differences(testkit.Raw(t, a), testkit.Raw(t, b))) == 0
}

func compare(t *testing.T, d *versioning.History[string, bson.D], id string, m *model, end time.Time) {
	t.Helper()
	ctx := t.Context()
	check := func(what string, n int, r versioning.Revision[bson.D], err error) {
		t.Helper()
		var want error
		switch {
		case n > len(m.all) || n < 1:
			want = mongopatterns.ErrNotFound
		case n < m.kept:
			want = versioning.ErrPruned
		case m.all[n-1].deleted:
			want = versioning.ErrDeleted
		}
		if want != nil || err != nil {
			if !errors.Is(err, want) || !errors.Is(err, mongo.ErrNoDocuments) {
				t.Errorf("%s: revision %d: error %v, want %v", what, n, err, want)
			}
			return
		}
		p := m.all[n-1]
		doc := r.Document[:len(r.Document)-2]
		if int(r.Number) != n || r.Change.Author != p.author || !r.Change.At.Equal(p.at) || !sameState(t, doc, p.state) {
			t.Errorf("%s: revision %d is %d by %s: %s", what, n, r.Number, r.Change.Author, cmp.Diff(p.state, doc))
		}
	}
	for n := 0; n <= len(m.all)+1; n++ {
		r, err := d.At(ctx, id, int64(n))
		check("at", n, r, err)
	}
	for at := start.Add(-time.Second); at.Before(end.Add(2 * time.Second)); at = at.Add(2311 * time.Millisecond) {
		n := 0
		for i, p := range m.all {
			if !p.at.After(at) {
				n = i + 1
			}
		}
		r, err := d.AsOf(ctx, id, at)
		if n == 0 && m.kept > 1 {
			if !errors.Is(err, versioning.ErrPruned) { // after pruning, "never existed" is not known
				t.Errorf("as of %v: %v", at, err)
			}
			continue
		}
		check(fmt.Sprint("as of ", at), n, r, err)
	}
	for i, p := range m.all { // at the exact instants
		n := i + 1
		for n < len(m.all) && m.all[n].at.Equal(p.at) {
			n++
		}
		r, err := d.AsOf(ctx, id, p.at)
		check("as of its time", n, r, err)
	}
	n := len(m.all)
	for r, err := range d.Revisions(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		if p := m.all[n-1]; p.deleted {
			if !r.Deleted || int(r.Number) != n {
				t.Errorf("history: %+v, want deletion %d", r, n)
			}
		} else {
			check("history", n, r, nil)
		}
		n--
	}
	if n != m.kept-1 {
		t.Errorf("history ended at %d, want %d", n+1, m.kept)
	}
	for before := m.kept + 1; before <= len(m.all)+1; before++ {
		n = before - 1
		for r, err := range d.RevisionsBefore(ctx, id, int64(before)) {
			if err != nil {
				t.Fatal(err)
			}
			if p := m.all[n-1]; p.deleted {
				if !r.Deleted || int(r.Number) != n {
					t.Errorf("history before %d: %+v, want deletion %d", before, r, n)
				}
			} else {
				check("history before", n, r, nil)
			}
			n--
		}
		if n != m.kept-1 {
			t.Errorf("history before %d ended at %d, want %d", before, n+1, m.kept)
		}
	}
	n = m.kept
	for r, err := range d.RevisionsFrom(ctx, id, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if p := m.all[n-1]; p.deleted {
			if !r.Deleted || int(r.Number) != n {
				t.Errorf("history from: %+v, want deletion %d", r, n)
			}
		} else {
			check("history from", n, r, nil)
		}
		n++
	}
	if n != len(m.all)+1 {
		t.Errorf("history from 1 ended at %d, want %d", n-1, len(m.all))
	}
}
