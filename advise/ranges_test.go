package advise_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// fill inserts many documents, a batch at a time.
func fill(t *testing.T, coll *mongo.Collection, n int, make func(i int) bson.D) {
	t.Helper()
	for from := 0; from < n; from += 20_000 {
		insert(t, coll, times(min(20_000, n-from), func(i int) bson.D { return make(from + i) }))
	}
}

// A collection that no scan reads in the time is estimated from ranges of _id, of whatever type, with an interval that
// holds the truth; where the order of _id tells the answer, nothing is said but how to count it.
func TestEstimates(t *testing.T) {
	const n = 5_000
	advise.SlowScans(t, n-1, 75) // three tenths of all
	long := make(bson.A, 150)
	for i := range long {
		long[i] = strings.Repeat("x", 250)
	}
	r := rand.New(rand.NewPCG(5, 5))
	random := func(i int) bool { return r.IntN(25) == 0 }
	type estimate struct {
		name    string
		id      func(i int) any
		long    func(i int) bool
		unknown string
	}
	all := []estimate{
		{"numbers with gaps", func(i int) any { return i + i/3_000*1_000_000 }, random, ""},
		{"object ids", func(i int) any { return bson.NewObjectIDFromTimestamp(time.Unix(int64(1_700_000_000+i), 0)) }, random, ""},
		{"by age", func(i int) any { return i }, func(i int) bool { return r.IntN(10*n) < i }, "more or fewer with its order: an estimate would be wrong"},
		{"texts", func(i int) any { return fmt.Sprintf("t%07d", i) }, random, "no ranges of its _ids can be chosen"},
		{"uuids", func(i int) any {
			data := make([]byte, 16)
			binary.BigEndian.PutUint64(data, r.Uint64())
			return bson.Binary{Subtype: 4, Data: data}
		}, random, ""},
		{"one place", func(i int) any { return i }, func(i int) bool { return i > 3_750 && i < 4_000 && i%2 == 0 }, "too different for an estimate"},
	}
	for _, test := range all[:scale.Of(4, len(all), len(all))] {
		db, truth := mongotest.Database(t), 0
		fill(t, db.Collection("things"), n, func(i int) bson.D {
			list := bson.A{"a", "b"}
			if test.long(i) {
				list, truth = long, truth+1
			}
			return bson.D{{Key: "_id", Value: test.id(i)}, {Key: "list", Value: list}}
		})
		report := look(t, db, unhurried(nil))
		notes := strings.Join(about(report, "things"), "; ")
		if test.unknown != "" {
			if len(report.Findings) > 0 || !strings.Contains(notes, test.unknown) || !strings.Contains(notes, "-max-time") {
				t.Errorf("%s: advised %v; %s", test.name, report.Findings, notes)
			}
			continue
		}
		if !slices.Equal(named(report), []string{"outlier:things"}) {
			t.Errorf("%s: advised %v; %s", test.name, named(report), notes)
			continue
		}
		f := report.Findings[0]
		if got := f.Check.Answer; !f.Check.Estimated || got < int64(truth)/2 || got > 2*int64(truth) || !strings.Contains(f.Summary, "estimated from ") {
			t.Errorf("%s: %d long lists, estimated %d: %s", test.name, truth, got, f.Summary)
		}
		for _, fact := range f.Facts {
			if fact.How == "counted" {
				t.Errorf("%s: %+v", test.name, fact)
			}
		}
		var text strings.Builder
		testkit.OK(t, report.Text(&text))
		if !strings.Contains(text.String(), "; it takes longer than -max-time") {
			t.Errorf("%s", &text)
		}
	}
}

// Estimates of remarks, also of copies that some documents have.
func TestEstimatedRemarks(t *testing.T) {
	const n = 4_000
	advise.SlowScans(t, n-1, 100)
	db := mongotest.Database(t)
	name := func(user int) string { return fmt.Sprint("name ", user) }
	insert(t, db.Collection("users"), times(100, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: name(i)}} }))
	fill(t, db.Collection("visits"), n, func(i int) bson.D {
		user := i % 100
		if i%10 == 0 {
			user += 100
		}
		doc := bson.D{{Key: "_id", Value: i}, {Key: "user", Value: user}, {Key: "at", Value: "2026-01-01T00:00:00Z"}}
		switch {
		case i%40 == 1:
			doc = append(doc, bson.E{Key: "userName", Value: "as it was"})
		case i%4 == 1:
			doc = append(doc, bson.E{Key: "userName", Value: name(user)})
		}
		return doc
	})
	report := look(t, db, unhurried(nil))
	got := map[string]int64{}
	for _, r := range report.Remarks {
		got[r.Name()] = r.Check.Answer
		if !strings.HasPrefix(r.Sure, "estimated from 20 ranges of _id, ") {
			t.Errorf("%s: %s", r.Name(), r.Sure)
		}
	}
	stale := got["data:stale:visits.userName"]
	if len(got) != 3 || got["data:dangling:visits.user"] < 300 || got["data:dangling:visits.user"] > 500 || got["data:dates:visits.at"] != n || stale < 75 || stale > 125 {
		t.Errorf("%v; %v", report.Remarks, report.Unknown)
	}
}

// What is estimated of lists is of their references, not of their documents.
func TestEstimatedReferences(t *testing.T) {
	const n = 1_250
	advise.SlowScans(t, n-1, 50) // of 62 in each part
	db := mongotest.Database(t)
	fill(t, db.Collection("posts"), n, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "comments", Value: bson.A{3 * i, 3*i + 1, 3*i + 2}}}
	})
	fill(t, db.Collection("comments"), 3*n, func(i int) bson.D {
		post := i / 3
		if i%10 == 0 {
			post = (post + 1) % n
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "post", Value: post}}
	})
	report := look(t, db, unhurried(nil))
	got := map[string]int64{}
	for _, r := range report.Remarks {
		if got[r.Name()] = r.Check.Answer; !r.Check.Estimated {
			t.Errorf("%s: %s", r.Name(), r.Sure)
		}
	}
	const want = 3 * n / 10
	for _, name := range []string{"data:onesided:posts.comments", "data:onesided:comments.post"} {
		if got[name] < want*95/100 || got[name] > want*105/100 {
			t.Errorf("%s: %d, want about %d; %v", name, got[name], want, report.Unknown)
		}
	}
}

// With the default bounds, as many small documents as no scan reads in the time get an answer. As that is a matter of
// the machine's pace, the small tier has none.
func TestTwoMillionDocuments(t *testing.T) {
	for _, n := range scale.Of(nil, nil, []int{2_000_000}) {
		db := mongotest.Database(t)
		fill(t, db.Collection("visits"), n, func(i int) bson.D {
			return bson.D{{Key: "_id", Value: bson.NewObjectID()}, {Key: "at", Value: "2026-01-01T00:00:00Z"}, {Key: "page", Value: "/a/page/of/some/length"}, {Key: "n", Value: i}}
		})
		report := look(t, db, nil)
		if len(report.Remarks) != 1 || !strings.HasPrefix(report.Remarks[0].Sure, "estimated from ") {
			t.Errorf("%v; %v", report.Remarks, report.Unknown)
		}
		t.Log(report.Took, report.Remarks, report.Unknown)
	}
}

// Documents of many fields are unwound once, and where all of them take too long a sample has to do.
func TestWideDocuments(t *testing.T) {
	db := mongotest.Database(t)
	insert(t, db.Collection("wide"), times(400, func(i int) bson.D {
		doc := bson.D{{Key: "_id", Value: i}, {Key: "at", Value: "2026-01-01T00:00:00Z"}, {Key: "in", Value: bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: "2026-01-01"}}}}}}
		for j := range 150 {
			doc = append(doc, bson.E{Key: fmt.Sprint("field", j), Value: j})
		}
		return doc
	}))
	for _, late := range []bool{false, true} {
		opts := unhurried(nil)
		opts.Progress = func(advise.Progress) {
			if late {
				mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"aggregate"}, Times: 1, Code: 50})
			}
		}
		var report *advise.Report
		cmds := mongotest.Record(t, db, func() { report = look(t, db, opts) })
		if len(report.Remarks) != 2 || report.Remarks[0].Name() != "data:dates:wide.at" || report.Remarks[1].Name() != "data:dates:wide.in.a.b" {
			t.Errorf("late %v: %v; %v", late, report.Remarks, report.Unknown)
		}
		for _, c := range cmds {
			if text := c.Body.String(); strings.Contains(text, `"$all.p"`) && strings.Count(text, `"$unwind"`) != 1 {
				t.Errorf("%s", text)
			}
		}
	}
}

// What rests on estimated references says so, and is not advised where the ranges do not tell whether they lead anywhere.
func TestEstimatedRelations(t *testing.T) {
	const n, each, orders = 200, 17, 150
	advise.SlowScans(t, n-1, 10)
	queries := append(sends(t, 120, `{"aggregate": "orders", "pipeline": [{"$match": {"year": 7}}, {"$lookup": {"from": "lines", "localField": "_id", "foreignField": "order", "as": "all"}}]}`,
		`{"aggregate": "lines", "pipeline": [{"$match": {"order": 7}}, {"$group": {"_id": "$order", "amount": {"$sum": "$amount"}}}]}`,
		`{"update": "posts", "updates": [{"q": {"_id": 7}, "u": {"$push": {"comments": "x"}}}]}`),
		sends(t, 1, `{"update": "lines", "updates": [{"q": {"_id": 7}, "u": {"$set": {"amount": 1}}}]}`)...)
	text := func(i int) string { return fmt.Sprintf("%0140d", i) }
	for _, wrong := range []bool{false, true} {
		db := mongotest.Database(t)
		insert(t, db.Collection("orders"), times(orders, func(i int) bson.D { return bson.D{{Key: "_id", Value: text(i)}, {Key: "year", Value: i % 9}} }))
		insert(t, db.Collection("lines"), times(10*n, func(i int) bson.D {
			order := i % orders
			if wrong && i/n == 7 {
				order = orders + i
			}
			return bson.D{{Key: "_id", Value: i}, {Key: "order", Value: text(order)}, {Key: "amount", Value: i}}
		}))
		insert(t, db.Collection("posts"), times(n, func(i int) bson.D {
			list := make(bson.A, each)
			for j := range list {
				list[j] = text(i*each + j)
				if wrong && i/10 == 7 {
					list[j] = fmt.Sprint("none ", list[j])
				}
			}
			return bson.D{{Key: "_id", Value: i}, {Key: "comments", Value: list}}
		}))
		insert(t, db.Collection("comments"), times(n*each, func(i int) bson.D { return bson.D{{Key: "_id", Value: text(i)}} }))
		report := look(t, db, unhurried(queries))
		if wrong {
			for _, name := range []string{"relation:orders.lines", "relation:posts.comments", "computed:lines.order"} {
				told := !slices.ContainsFunc(report.Unknown, func(n advise.Note) bool {
					return n.Pattern+":"+n.Collection+"."+n.Path == name && strings.Contains(n.Reason, "too different for an estimate") && strings.Contains(n.Tells, "-max-time")
				})
				if told || slices.ContainsFunc(report.Findings, func(f advise.Finding) bool { return f.Name() == name }) {
					t.Errorf("%s: advised %v; %v", name, named(report), report.Unknown)
				}
			}
			continue
		}
		if got := named(report); !slices.Equal(got, []string{"computed:lines", "relation:orders", "relation:posts"}) {
			t.Errorf("advised %v; %v; %v", got, report.NotAdvised, report.Unknown)
		}
		for _, f := range report.Findings {
			if f.Pattern == "relation" && !strings.Contains(f.Sure, "estimated: ") {
				t.Errorf("%s: %s", f.Name(), f.Sure)
			}
			for _, fact := range f.Facts {
				if leads := strings.Contains(fact.What, "to a document of "); leads && fact.How != "estimated" {
					t.Errorf("%s: %v", f.Name(), fact)
				}
			}
		}
	}
}
