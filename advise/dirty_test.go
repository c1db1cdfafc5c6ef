package advise_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/advise"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// dirty generates 300 documents of a kind, changes some of them and looks.
func dirty(t *testing.T, kind string, change func(c *labelled)) *advise.Report {
	t.Helper()
	db := mongotest.Database(t)
	c := generate(rand.New(rand.NewPCG(7, 7)), kindOf(t, kind), 300, "things")
	change(&c)
	return look(t, db, unhurried(store(t, db, []labelled{c})))
}

// reason is the one note about a pattern of a collection that is not advised.
func reason(t *testing.T, report *advise.Report, pattern string) string {
	t.Helper()
	var all []string
	for _, n := range report.NotAdvised {
		if n.Collection == "things" && n.Pattern == pattern {
			all = append(all, n.Reason)
		}
	}
	if len(all) != 1 {
		t.Errorf("%s: %d reasons: %v", pattern, len(all), all)
	}
	return strings.Join(all, "; ")
}

// The printed types hold every _id and element, also the few that a sample misses; where no type does the code says which
// there are.
func TestTypesAreCounted(t *testing.T) {
	printing(t)
	t.Parallel()
	for _, test := range []struct {
		id   any
		want string
	}{
		{nil, "lists, err := outlier.New[int32, string]("},
		{int64(1) << 40, "lists, err := outlier.New[int64, string]("},
		{"x", "// any: things, _id: int in 299 documents, string in 1 document (counted)\nlists, err := outlier.New[any, string]("},
	} {
		report := dirty(t, "outlier: few very long lists", func(c *labelled) {
			if test.id != nil {
				c.docs[7].(bson.D)[0].Value = test.id
			}
		})
		if !slices.Equal(named(report), []string{"outlier:things"}) || !strings.HasPrefix(report.Findings[0].Code, test.want) {
			t.Fatalf("%v: %v", test.id, report.Findings)
		}
		prints(t, report.Findings)
	}
}

// Few documents of 16 MB neither make split pay nor hide that it does: documents are counted, not bytes.
func TestSplitOfFewHugeDocuments(t *testing.T) {
	t.Parallel()
	const kind = "split: lists leave texts out"
	field := func(doc any, name string) *any {
		d := doc.(bson.D)
		return &d[slices.IndexFunc(d, func(e bson.E) bool { return e.Key == name })].Value
	}
	hot := dirty(t, kind, func(c *labelled) { *field(c.docs[7], "title") = strings.Repeat("x", 15<<20) })
	if !slices.Equal(named(hot), []string{"split:things"}) {
		t.Fatalf("a title of 15 MB: advised %v; %v", named(hot), about(hot, "things"))
	}
	if f := hot.Findings[0]; !strings.Contains(f.Summary, "in 299 of 300 documents (counted)") {
		t.Errorf("%s", f.Summary)
	}
	cold := dirty(t, kind, func(c *labelled) {
		text := c.docs[0].(bson.D)[4].Key
		for i, doc := range c.docs {
			*field(doc, text), *field(doc, "details") = "short", bson.D{{Key: "plot", Value: "short"}}
			if i == 7 {
				*field(doc, text) = strings.Repeat("x", 15<<20)
			}
		}
	})
	if len(cold.Findings) > 0 {
		t.Errorf("one text of 15 MB: advised %v", named(cold))
	} else if got := reason(t, cold, "split"); !strings.Contains(got, "in 1 of 300 documents alone") {
		t.Errorf("one text of 15 MB: %s", got)
	}
}

// Parents of another shape, in up to 5 % of the documents, do not hide a tree, and are counted.
func TestTreeWithOtherParents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		parent any
		some   int // documents with it
		want   string
		not    string
	}{
		{"one array", bson.A{1, 2}, 1, "1 of 299 documents with a parent has an array there (counted): Adopt leaves", ""},
		{"empty arrays", bson.A{}, 12, "12 of 299 documents with a parent have an array there (counted)", ""},
		{"one name", "the first", 1, "1 of 299 documents with a parent names no document (counted)", ""},
		{"itself", nil, 1, "1 of 299 documents with a parent names itself (counted): Adopt leaves", ""},
		{"many themselves", nil, 20, "", "20 of 299 documents with a parent name themselves"},
		{"many arrays", bson.A{1, 2}, 20, "", "20 of 299 documents with a parent have an array there: a graph, not a tree"},
		{"many names", "the first", 20, "", "20 of 299 documents with a parent name no document"},
	} {
		report := dirty(t, "tree: subtrees are read", func(c *labelled) {
			for i := range test.some {
				d := c.docs[len(c.docs)-1-i].(bson.D) // leaves
				d[len(d)-1].Value = cmp.Or(test.parent, d[0].Value)
			}
		})
		switch {
		case test.not != "":
			if got := reason(t, report, "tree"); len(report.Findings) > 0 || got != test.not {
				t.Errorf("%s: advised %v, %q", test.name, named(report), got)
			}
		case !slices.Equal(named(report), []string{"tree:things"}):
			t.Errorf("%s: advised %v; %v", test.name, named(report), about(report, "things"))
		case !strings.Contains(strings.Join(report.Findings[0].Against, " "), test.want):
			t.Errorf("%s: %q", test.name, report.Findings[0].Against)
		}
	}
}

// A tree whose roots name themselves is not advised: Adopt would take none of it.
func TestTreeOfRootsThatNameThemselves(t *testing.T) {
	t.Parallel()
	report := dirty(t, "tree: subtrees are read", func(c *labelled) {
		root, stray := c.docs[0].(bson.D), c.docs[len(c.docs)-1].(bson.D)
		root[len(root)-1].Value, stray[len(stray)-1].Value = root[0].Value, nil
	})
	if got := reason(t, report, "tree"); len(report.Findings) > 0 || !strings.Contains(got, " a parent that names itself: Adopt would leave these and all below them") ||
		!strings.Contains(got, `find({$expr: {$eq: ["$_id", "$`) {
		t.Errorf("advised %v, %q", named(report), got)
	}
}

// What stops a pattern is said with the query that finds it.
func TestTotalsOfAnArray(t *testing.T) {
	t.Parallel()
	report := dirty(t, "computed: totals of a product", func(c *labelled) {
		one := c.docs[7].(bson.D)
		one[len(one)-2].Value = bson.A{one[len(one)-2].Value}
	})
	if got := reason(t, report, "computed"); !strings.HasPrefix(got, "some documents have an array there: find({") || !strings.HasSuffix(got, `": {$type: "array"}})`) {
		t.Errorf("advised %v, %q", named(report), got)
	}
}

// A document that names itself makes no third level.
func TestTwoLevelsAndItself(t *testing.T) {
	t.Parallel()
	report := dirty(t, "tree: subtrees are read", func(c *labelled) {
		first := c.docs[0].(bson.D)[0].Value
		for i, doc := range c.docs[1:] {
			d := doc.(bson.D)
			if d[len(d)-1].Value = first; i == 7 {
				d[len(d)-1].Value = d[0].Value
			}
		}
	})
	if got := reason(t, report, "tree"); got != "has two levels: one query gives the children" {
		t.Errorf("advised %v, %q", named(report), got)
	}
}

// nest puts the reference of the orders, and the reads that follow it, below a subdocument.
func nest(t *testing.T, c *labelled, above string) {
	t.Helper()
	local := c.docs[0].(bson.D)[4].Key
	for _, doc := range c.docs {
		d := doc.(bson.D)
		names := strings.Split(above, ".")
		value := any(bson.D{{Key: local, Value: d[4].Value}})
		for i := len(names) - 1; i > 0; i-- {
			value = bson.D{{Key: names[i], Value: value}}
		}
		d[4] = bson.E{Key: names[0], Value: value}
	}
	for i, command := range c.commands {
		var body bson.D
		if err := bson.Unmarshal(command.Body, &body); err != nil {
			t.Fatal(err)
		}
		pipeline, ok := body[1].Value.(bson.A)
		if !ok {
			continue
		}
		for _, stage := range pipeline {
			if s := stage.(bson.D)[0]; s.Key == "$lookup" {
				s.Value.(bson.D)[1].Value = above + "." + local
			}
		}
		raw, err := bson.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		c.commands[i].Body = raw
	}
}

const joined = "extref: names of sources that change now and then"

// A reference inside a subdocument is found, and the printed options are those of a package that takes it.
func TestExtrefOfDottedReference(t *testing.T) {
	printing(t)
	t.Parallel()
	report := dirty(t, joined, func(c *labelled) { nest(t, c, "cust") })
	if !slices.Equal(named(report), []string{"extref:things"}) {
		t.Fatalf("advised %v; %v", named(report), about(report, "things"))
	}
	f := report.Findings[0]
	if !strings.HasPrefix(f.Path, "cust.") || f.Check.Answer != 300 || f.Facts[1].Value != 300 {
		t.Errorf("%s: %d, %v", f.Path, f.Check.Answer, f.Facts)
	}
	prints(t, report.Findings)

	db := mongotest.Database(t)
	insert(t, db.Collection("things"), []any{bson.D{{Key: "_id", Value: 1}, {Key: "cust", Value: bson.D{{Key: "cid", Value: 7}}}},
		bson.D{{Key: "_id", Value: 2}, {Key: "cust", Value: bson.D{{Key: "cid", Value: bson.A{7, 8}}}}},
		bson.D{{Key: "_id", Value: 3}, {Key: "cust", Value: bson.A{bson.D{{Key: "cid", Value: 7}}}}}})
	insert(t, db.Collection("sources"), []any{bson.D{{Key: "_id", Value: 7}, {Key: "name", Value: "Ann"}}})
	references, err := extref.New[int, bson.M](db.Collection("sources"), []extref.Target{{
		Collection: db.Collection("things"), IDField: "cust.cid", VersionField: "cust.cid_version",
		Fields: []extref.Field{{Path: "name", As: "cust.cid_name"}},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := references.Adopt(t.Context(), "things", nil); err != nil || result.Done != 1 || result.Remaining != 2 {
		t.Errorf("%+v, %v", result, err)
	}
}

// customers stores two hundred.
func customers(t *testing.T, db *mongo.Database) {
	t.Helper()
	insert(t, db.Collection("customers"), times(100, func(i int) bson.D {
		return bson.D{{Key: "_id", Value: i}, {Key: "name", Value: fmt.Sprint("n", i)}, {Key: "email", Value: fmt.Sprint("e", i)}, {Key: "rate", Value: 1000 + i}}
	}))
}

// A subdocument with the _id of another document is a copy already, with what was written into it by hand. What
// differs from the source in more than a few documents stays.
func TestExtrefOfCopiesByHand(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	customers(t, db)
	for name, id := range map[string]string{"orders": "_id", "mails": "id"} {
		insert(t, db.Collection(name), times(200, func(i int) bson.D {
			doc := bson.D{{Key: id, Value: i % 100}, {Key: "name", Value: fmt.Sprint("n", i%100)}, {Key: "rate", Value: 1000 + i%100}}
			if i%10 == 3 {
				doc[2].Value = i % 100
			}
			switch {
			case i < 4:
				doc[1].Value = "as it was"
			case i < 8 && id == "id":
				doc = append(doc, bson.E{Key: "version", Value: "v2"})
			}
			return bson.D{{Key: "_id", Value: i}, {Key: "customer", Value: doc}}
		}))
	}
	for _, test := range []struct{ name, id, code string }{
		{"orders", "_id", `	Collection: db.Collection("orders"),
	Path:       "customer",
	Fields:     []extref.Field{{Path: "email"}, {Path: "name"}, {Path: "rate", As: "_id_rate"}},
`}, {"mails", "id", `	Collection:   db.Collection("mails"),
	Path:         "customer",
	IDField:      "id",
	VersionField: "id_version",
	Fields:       []extref.Field{{Path: "email"}, {Path: "name"}, {Path: "rate", As: "id_rate"}},
`}} {
		join := sends(t, 100, fmt.Sprintf(`{"aggregate": %q, "pipeline": [{"$match": {"_id": {"$lt": 50}}}, {"$lookup": {"from": "customers", "localField": "customer.%s", "foreignField": "_id", "as": "of"}},
			{"$project": {"of.name": 1, "of.email": 1, "of.rate": 1}}]}`, test.name, test.id))
		report := said(t, db, join, "extref:"+test.name+".customer."+test.id, test.name, "")
		if len(report.Findings) == 0 {
			continue
		}
		f := report.Findings[0]
		prints(t, report.Findings)
		if against := strings.Join(f.Against, " "); !strings.Contains(f.Code, test.code) || !strings.Contains(f.Adopt, `references.Adopt(ctx, "`+test.name+`.customer", nil)`) ||
			!strings.Contains(against, "customer.name, written by hand, becomes the copy: 4 of 200 differ from customers.name (counted) and would be overwritten") ||
			!strings.Contains(against, "customer.rate is there, and 20 of 200 differ from customers.rate (counted), too many to overwrite") {
			t.Errorf("%s\n%s\n%s", f.Code, f.Adopt, against)
		}
		trial, err := advise.Try(t.Context(), db, scratchOf(t, db), report, f, nil)
		if err != nil || !trial.Kept() || trial.Saved == 0 || len(trial.Replays) != 1 {
			t.Errorf("%s, %v", printedTrial(t, trial), err)
		}
		if test.id != "_id" {
			continue
		}
		// What is printed.
		references, err := extref.New[int32, bson.D](db.Collection("customers"), []extref.Target{{
			Collection: db.Collection("orders"),
			Path:       "customer",
			Fields:     []extref.Field{{Path: "email"}, {Path: "name"}, {Path: "rate", As: "_id_rate"}},
		}}, nil)
		testkit.OK(t, err)
		if result, err := references.Adopt(t.Context(), "orders.customer", nil); err != nil || result.Done != 200 {
			t.Errorf("%+v, %v", result, err)
		}
		var order bson.D
		testkit.OK(t, db.Collection("orders").FindOne(t.Context(), bson.D{{Key: "_id", Value: 3}}).Decode(&order))
		if got, want := fmt.Sprint(order), fmt.Sprint(document(t, `{"_id": 3, "customer": {"_id": 3, "name": "n3", "rate": 3, "_id_rate": 1003, "email": "e3", "version": {"$numberLong": "0"}}}`)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		said(t, db, join, "", "orders", "documents have the copies already: customer.email")
	}
	// The package does not take a reference that is the _id.
	insert(t, db.Collection("profiles"), times(100, func(i int) bson.D { return bson.D{{Key: "_id", Value: i}, {Key: "x", Value: i}} }))
	said(t, db, sends(t, 100, `{"aggregate": "profiles", "pipeline": [{"$lookup": {"from": "customers", "localField": "_id", "foreignField": "_id", "as": "of"}}, {"$project": {"of.name": 1}}]}`),
		"", "profiles", "the reference is the _id, and the package takes another field")
}

// A field that was copied by hand is judged in the same way beside the reference and inside a subdocument. A version that is
// no whole number was not written by extref.
func TestExtrefOfCopiesByHandBeside(t *testing.T) {
	printing(t)
	t.Parallel()
	db := mongotest.Database(t)
	customers(t, db)
	insert(t, db.Collection("orders"), times(200, func(i int) bson.D {
		rate := 1000 + i%100
		if i%10 == 3 {
			rate = 7
		}
		return bson.D{{Key: "_id", Value: i}, {Key: "customer", Value: i % 100}, {Key: "customer_name", Value: fmt.Sprint("n", i%100)}, {Key: "customer_rate", Value: rate}, {Key: "customer_version", Value: "v2"}}
	}))
	join := sends(t, 100, `{"aggregate": "orders", "pipeline": [{"$match": {"_id": {"$lt": 50}}}, {"$lookup": {"from": "customers", "localField": "customer", "foreignField": "_id", "as": "of"}},
		{"$project": {"of.name": 1, "of.email": 1, "of.rate": 1}}]}`)
	report := said(t, db, join, "extref:orders.customer", "orders", "")
	if len(report.Findings) == 0 {
		return
	}
	f := report.Findings[0]
	prints(t, report.Findings)
	const code = `	IDField:      "customer",
	VersionField: "customer_copy_version",
	Fields:       []extref.Field{{Path: "email", As: "customer_email"}, {Path: "name", As: "customer_name"}, {Path: "rate", As: "customer_copy_rate"}},
`
	if against := strings.Join(f.Against, " "); !strings.Contains(f.Code, code) || strings.Contains(against, "customer_version") ||
		!strings.Contains(against, "customer_rate is there, and 20 of 200 differ from customers.rate (counted), too many to overwrite") {
		t.Errorf("%s\n%s", f.Code, against)
	}
	// What is printed.
	references, err := extref.New[int32, bson.D](db.Collection("customers"), []extref.Target{{
		Collection:   db.Collection("orders"),
		IDField:      "customer",
		VersionField: "customer_copy_version",
		Fields:       []extref.Field{{Path: "email", As: "customer_email"}, {Path: "name", As: "customer_name"}, {Path: "rate", As: "customer_copy_rate"}},
	}}, nil)
	testkit.OK(t, err)
	if result, err := references.Adopt(t.Context(), "orders", nil); err != nil || result.Done != 200 {
		t.Errorf("%+v, %v", result, err)
	}
	said(t, db, join, "", "orders", "documents have the copies already: customer_email")
	// With a version of extref there are copies of other fields.
	_, err = db.Collection("orders").UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "customer_version", Value: 1}}}, {Key: "$unset", Value: bson.D{{Key: "customer_email", Value: ""}}}})
	testkit.OK(t, err)
	if report := said(t, db, join, "extref:orders.customer", "orders", ""); len(report.Findings) > 0 && !strings.Contains(strings.Join(report.Findings[0].Against, " "), "customer_version is there already") {
		t.Errorf("%q", report.Findings[0].Against)
	}
}

// Where extref is not advised, the note has the reason that applies, and no other.
func TestExtrefReasons(t *testing.T) {
	t.Parallel()
	last := func(c *labelled, i int) *any { return &c.docs[i].(bson.D)[4].Value }
	for _, test := range []struct {
		want   string
		change func(c *labelled)
	}{
		{"things_source has 4 documents: a service can keep them in its memory", func(c *labelled) { c.sources = c.sources[:4] }},
		{"things_source does not exist", func(c *labelled) { c.sources = nil }},
		{"the reference is below the third name of a path", func(c *labelled) { nest(t, c, "a.b.c") }},
		{"no document has it", func(c *labelled) {
			for i := range c.docs {
				*last(c, i) = nil
			}
		}},
		{"documents have an array in cust: the reference must have one value", func(c *labelled) {
			nest(t, c, "cust")
			for i := range c.docs {
				*last(c, i) = bson.A{bson.A{*last(c, i)}}
			}
		}},
	} {
		report := dirty(t, joined, test.change)
		if got := reason(t, report, "extref"); got != test.want || len(report.Findings) > 0 {
			t.Errorf("advised %v, %q, want %q", named(report), got, test.want)
		}
	}
	// One customer has another type of _id.
	typed := dirty(t, joined, func(c *labelled) { c.sources[0].(bson.D)[0].Value = "x" })
	if !slices.Equal(named(typed), []string{"extref:things"}) || !strings.HasPrefix(typed.Findings[0].Code, "// any: things_source, _id: int in ") {
		t.Errorf("advised %v", typed.Findings)
	}
	// One order has several customers.
	report := dirty(t, joined, func(c *labelled) { *last(c, 7) = bson.A{1, 2} })
	if !slices.Equal(named(report), []string{"extref:things"}) {
		t.Fatalf("advised %v; %v", named(report), about(report, "things"))
	}
	if text := strings.Join(report.Findings[0].Against, " "); !strings.Contains(text, "1 of 300 documents with the reference has an array there (counted)") {
		t.Errorf("against: %s", text)
	}
}

// Values of other types, in up to 5 % of the documents, do not hide fields that could be entries, and are counted.
func TestAttributeWithOtherValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		values []any
		some   int // documents with one more value
		want   string
		not    string
	}{
		{"one string", []any{"12 cm"}, 1, "1 of 300 documents has another type there than int (string) (counted): Adopt makes entries of these values as they are, which int32 cannot hold", ""},
		{"one string and one array", []any{"12 cm", bson.A{1, 2}}, 2, "2 of 300 documents have another type there than int (array, string) (counted)", ""},
		{"a string in each field", []any{"12 cm"}, 12, "12 of 300 documents have another type there than int (string) (counted)", ""},
		{"a double in each field", []any{1.5}, 12, "", ""},
		{"many strings", []any{"12 cm"}, 30, "", "30 of 300 documents have another type there than int (string)"},
		{"half strings", []any{"12 cm"}, 300, "", "12 of its 12 indexed fields hold values of several types"},
	} {
		report := dirty(t, "attribute: many indexed fields that most lack", func(c *labelled) {
			c.indexes = c.indexes[:12]
			var names []string
			for _, model := range c.indexes {
				names = append(names, model.Keys.(bson.D)[0].Key)
			}
			for i := range c.docs {
				c.docs[i] = bson.D{{Key: "_id", Value: i}, {Key: names[i%12], Value: i}}
				if i < test.some { // instead of the only value, or beside it
					other := names[i%12]
					if test.some == len(c.docs) && i/12%2 == 0 {
						continue
					}
					c.docs[i] = bson.D{{Key: "_id", Value: i}, {Key: other, Value: test.values[i%len(test.values)]}}
				}
			}
		})
		if test.not != "" {
			if got := reason(t, report, "attribute"); len(report.Findings) > 0 || got != test.not {
				t.Errorf("%s: advised %v, %q", test.name, named(report), got)
			}
			continue
		}
		if !slices.Equal(named(report), []string{"attribute:things"}) {
			t.Errorf("%s: advised %v; %v", test.name, named(report), about(report, "things"))
			continue
		}
		f := report.Findings[0]
		if got := f.Saving.String(); !strings.HasPrefix(got, "not computed: 12 indexes become one, but sparse ones ") {
			t.Errorf("saves %q", got)
		}
		text := strings.Join(f.Against, " ")
		if len(f.Fields) != 12 || !strings.Contains(text, test.want) || (test.want == "") == strings.Contains(text, "another type") {
			t.Errorf("%s: %v, against: %s", test.name, f.Fields, text)
		}
	}
}

// A $sample fails by chance, and the server asks to try again: five attempts, and no more. Here the error meets the first
// aggregation, in its place. That is $queryStats where the server knows it, and else the first one of the collection.
func TestUnluckySample(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		times   int // the aggregations that fail
		unknown bool
	}{{4, false}, {100, true}} {
		db := mongotest.Database(t)
		insert(t, db.Collection("things"), []any{bson.D{{Key: "_id", Value: 1}}})
		mongotest.FailPoint(t, db, mongotest.Fail{Commands: []string{"aggregate"}, Times: test.times, Code: 28799})
		var report *advise.Report
		attempts, most := map[string]int{}, 0
		for _, c := range mongotest.Record(t, db, func() { report = look(t, db, unhurried(nil)) }).Named("aggregate") {
			pipeline := c.Body.Lookup("pipeline").String()
			attempts[pipeline]++
			most = max(most, attempts[pipeline])
		}
		refused := slices.ContainsFunc(about(report, "things"), func(note string) bool { return strings.Contains(note, "the server refused") })
		if refused != test.unknown || most != 5 {
			t.Errorf("after %d failures and %d attempts: %v", test.times, most, about(report, "things"))
		}
	}
}
