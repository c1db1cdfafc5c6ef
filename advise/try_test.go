package advise_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// triable has a collection for each kind of finding that a copy can show.
func triable(t *testing.T, seed uint64, n int) []labelled {
	t.Helper()
	var all []labelled
	for i, c := range []struct{ name, kind string }{
		{"books", "outlier: few very long lists"},
		{"baskets", "outlier: few long lists of documents"},
		{"products", "subset: the best by a field"},
		{"posts", "subset: pages show the newest"},
		{"films", "split: lists leave texts out"},
		{"threads", "relation: embedded children that are read alone"},
		{"goods", "attribute: many indexed fields that most lack"},
		{"tools", "attribute: many indexed fields of a subdocument"},
		{"sensors", "series: measurements read by range"},
		{"visits", "bucket: events read by range"},
		{"logins", "bucket: events with numbers inside"},
		{"votes", "computed: totals of a product"},
	} {
		all = append(all, generate(rand.New(rand.NewPCG(seed, uint64(i))), kindOf(t, c.kind), n, c.name))
	}
	return all
}

// What is promised is measured, within a factor of two, for each pattern that can be tried;
// of the others the reason is said. The scratch database is empty again, the other unchanged.
func TestHonesty(t *testing.T) {
	db, scratch := mongotest.Database(t), mongotest.Database(t)
	ctx := t.Context()
	all := triable(t, 2, 1_500)
	r := rand.New(rand.NewPCG(3, 3))
	others := []labelled{
		generate(r, kindOf(t, "paging: deep pages by a field"), 1_500, "articles"),
		generate(r, kindOf(t, "tree: subtrees are read"), 400, "folders"),
		generate(r, kindOf(t, "extref: names of sources that change now and then"), 400, "orders"),
		generate(r, kindOf(t, "relation: children one by one, by a list"), 400, "students"),
		generate(r, kindOf(t, "approx: views of one page"), 400, "pages"),
	}
	report := look(t, db, unhurried(store(t, db, append(all, others...))))
	tried := map[string]int{}
	for _, f := range report.Findings {
		trial, err := advise.Try(ctx, db, scratch, report, f, &advise.TryOptions{Documents: 1_000})
		if slices.Contains([]string{"articles", "folders", "orders", "students", "pages"}, f.Collection) {
			if !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "cannot be tried: it") && !strings.Contains(err.Error(), "cannot be tried: how") {
				t.Errorf("%s: %v", f.Name(), err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", f.Name(), err)
			continue
		}
		tried[f.Collection]++
		p := trial.Finding.Saving
		t.Logf("%s: promised %d to %d of %d %s, measured %d; the largest document %d, before %d", f.Name(), p.Low, p.High, p.Before, p.Unit, trial.Saved, trial.ReadAfter, trial.ReadBefore)
		if !trial.Kept() || trial.Saved <= 0 || 2*trial.Saved < p.Low || trial.Saved > 2*p.High {
			t.Errorf("%s: promised %+v, measured %d", f.Name(), p, trial.Saved)
		}
		if trial.Documents != 1_000 || trial.Of != 1_500 {
			t.Errorf("%s: %d of %d documents", f.Name(), trial.Documents, trial.Of)
		}
		if slices.Contains([]string{"outlier", "subset", "split"}, f.Pattern) && 2*trial.ReadAfter > trial.ReadBefore {
			t.Errorf("%s: the largest document has %d bytes, before %d", f.Name(), trial.ReadAfter, trial.ReadBefore)
		}
		var text, object strings.Builder
		if err := errors.Join(trial.Text(&text), trial.JSON(&object)); err != nil || !strings.Contains(text.String(), "measured") || !strings.Contains(object.String(), `"saved"`) {
			t.Errorf("%v, %s%s", err, &text, &object)
		}
		if names, err := scratch.ListCollectionNames(ctx, bson.D{}); err != nil || len(names) > 0 {
			t.Fatalf("%v in the scratch database, %v", names, err)
		}
	}
	for _, c := range all {
		if tried[c.name] != 1 {
			t.Errorf("%s: %d trials of %s; %v", c.name, tried[c.name], c.kind, about(report, c.name))
		}
		if n, err := db.Collection(c.name).CountDocuments(ctx, bson.D{}); err != nil || int(n) != len(c.docs) {
			t.Errorf("%s has %d documents, %v", c.name, n, err)
		}
	}
}

// A trial is refused where it would harm or say nothing.
func TestTryRefused(t *testing.T) {
	db, scratch := mongotest.Database(t), mongotest.Database(t)
	ctx := t.Context()
	report := look(t, db, unhurried(store(t, db, three(t, 300)[:1])))
	f := report.Findings[0]
	if _, err := advise.Try(ctx, db, db, report, f, nil); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "has collections") {
		t.Errorf("the same database: %v", err)
	}
	if _, err := advise.Try(ctx, db, scratch, report, f, &advise.TryOptions{Documents: 10}); !errors.Is(err, mongopatterns.ErrInvalid) || !strings.Contains(err.Error(), "copy more") {
		t.Errorf("ten documents: %v", err)
	}
	if _, err := advise.Try(ctx, db, scratch, report, f, &advise.TryOptions{Bytes: -1}); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("negative: %v", err)
	}
	if _, err := advise.Try(ctx, db, scratch, report, advise.Finding{Pattern: "outlier", Collection: "books"}, nil); !errors.Is(err, mongopatterns.ErrInvalid) {
		t.Errorf("a finding of nowhere: %v", err)
	}
}
