package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/relation"
)

// copies is one shape of a copied value.
type copies struct {
	name   string
	source string // the source, as JSON
	target extref.Target
	opts   extref.Options
	key    any
	before string // a document with a copy, made by Adopt from the key alone
	after  string // the same, after change
	change string
	index  string
	array  bool
}

func references(ctx context.Context, w *world) error {
	for _, c := range []copies{
		{name: "orders", source: `{"_id": 123, "name": "Katrina Pope", "street": "123 Main St", "phone": "1"}`, key: 123, index: "customer._id customer.version",
			target: extref.Target{Path: "customer", Fields: []extref.Field{{Path: "name"}, {Path: "street", Frozen: true}}},
			before: `{"_id": 1, "date": "today", "customer": {"_id": 123}}`, change: `{"$set": {"name": "Katrina Pop", "street": "9 Sea Rd"}}`,
			after: `{"_id": 1, "date": "today", "customer": {"_id": 123, "name": "Katrina Pop", "street": "123 Main St", "version": 1}}`},
		{name: "invoices", source: `{"_id": 7, "company": "Acme", "city": "Berlin"}`, key: 7, index: "supplier._id",
			target: extref.Target{Path: "supplier", Unversioned: true, Fields: []extref.Field{{Path: "company"}}},
			before: `{"_id": 1, "supplier": {"_id": 7}}`, change: `{"$set": {"company": "Acme Ltd"}}`, after: `{"_id": 1, "supplier": {"_id": 7, "company": "Acme Ltd"}}`},
		{name: "products", source: `{"_id": 5, "name": "#4 grommet", "cost": 1}`, key: 5, index: "parts.id", array: true,
			target: extref.Target{Path: "parts", Array: true, IDField: "id", Unversioned: true, Fields: []extref.Field{{Path: "name"}}},
			before: `{"_id": 1, "parts": [{"id": 5}, {"id": 5}]}`, change: `{"$set": {"name": "#5 grommet"}}`,
			after: `{"_id": 1, "parts": [{"id": 5, "name": "#5 grommet"}, {"id": 5, "name": "#5 grommet"}]}`},
		{name: "parts", source: `{"_id": 9, "name": "Smoke shifter", "catalog_number": 1234}`, key: 1234, index: "product_catalog_number", opts: extref.Options{KeyField: "catalog_number"},
			target: extref.Target{IDField: "product_catalog_number", Unversioned: true, Fields: []extref.Field{{Path: "name", As: "product_name"}}},
			before: `{"_id": "p", "product_catalog_number": 1234}`, change: `{"$set": {"name": "Left-handed smoke shifter"}}`,
			after: `{"_id": "p", "product_name": "Left-handed smoke shifter", "product_catalog_number": 1234}`},
		{name: "logs", source: `{"_id": "AAAB", "name": "goofy.example.com", "ipaddr": "127.66.66.66"}`, key: "AAAB", index: "host",
			target: extref.Target{IDField: "host", Unversioned: true, Fields: []extref.Field{{Path: "name", As: "hostname"}, {Path: "ipaddr"}}},
			before: `{"_id": 1, "message": "cpu is on fire!", "host": "AAAB"}`, change: `{"$set": {"ipaddr": "127.0.0.2"}}`,
			after: `{"_id": 1, "message": "cpu is on fire!", "host": "AAAB", "hostname": "goofy.example.com", "ipaddr": "127.0.0.2"}`},
	} {
		if err := follow(ctx, w, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func follow(ctx context.Context, w *world, c copies) error {
	source, target := "extref_"+c.name+"_sources", "extref_"+c.name
	c.target.Collection, c.target.Name = w.coll(target), "copies"
	refs, err := extref.New[any, bson.M](w.coll(source), []extref.Target{c.target}, &c.opts)
	if err != nil {
		return err
	}
	if err := ensure(ctx, refs); err != nil {
		return err
	}
	if err := errors.Join(w.put(ctx, source, c.source), w.put(ctx, target, c.before)); err != nil {
		return err
	}
	if _, err := refs.Adopt(ctx, "copies", nil); err != nil {
		return err
	}
	_, err = w.by(ctx, target, c.index, c.array, func() error {
		_, err := refs.Update(ctx, c.key, doc(c.change))
		return err
	})
	if err != nil {
		return err
	}
	return first(
		func() error { return w.stored(ctx, target, bson.D{}, c.after) },
		func() error { return clean(refs.Check(ctx, nil)) },
	)
}

type named struct {
	ID   int    `bson:"_id"`
	Name string `bson:"name"`
}

func relations(ctx context.Context, w *world) error {
	return first(
		func() error { return students(ctx, w) },
		func() error { return parts(ctx, w) },
		func() error { return messages(ctx, w) },
		func() error { return tasks(ctx, w) },
		func() error { return teachers(ctx, w) },
	)
}

// students: one-to-one and one-to-few are embedded and need no package; courses are
// an array of references.
func students(ctx context.Context, w *world) error {
	courses, err := relation.New[int, int, named](w.coll("students"), w.coll("courses"), &relation.Options{ChildrenField: "courses"})
	if err != nil {
		return err
	}
	if err := ensure(ctx, courses); err != nil {
		return err
	}
	embedded := `"first_name": "Sammy", "last_name": "Shark", "id_card": {"number": "123-1234-123"}, "emails": [{"email": "sammy@example.com", "type": "work"}]`
	err = first(
		func() error { return w.put(ctx, "students", `{"_id": 1, `+embedded+`}`) },
		func() error {
			return w.put(ctx, "courses", `{"_id": 101, "name": "Physics 101", "points": 7}`, `{"_id": 205, "name": "Introduction to Cloud Computing", "points": 4}`)
		},
		func() error { return courses.Link(ctx, 1, 205, 101) },
		func() error {
			return w.stored(ctx, "students", bson.D{}, `{"_id": 1, `+embedded+`, "courses": [205, 101]}`)
		},
	)
	if err != nil {
		return err
	}
	joined, err := courses.Children(ctx, 1, nil)
	if err != nil {
		return err
	}
	if err := equal("courses", joined.Items, "[{205 Introduction to Cloud Computing} {101 Physics 101}]"); err != nil {
		return err
	}
	_, err = w.by(ctx, "students", "courses", true, func() error {
		who, err := courses.Parents(ctx, 101)
		if err != nil {
			return err
		}
		return equal("who takes Physics", who, "[1]")
	})
	return err
}

// parts: an application-level join in two round trips, in the order of the references.
func parts(ctx context.Context, w *world) error {
	has, err := relation.New[int, int, named](w.coll("relation_products"), w.coll("relation_parts"), &relation.Options{ChildrenField: "parts"})
	if err != nil {
		return err
	}
	err = first(
		func() error {
			return w.put(ctx, "relation_products", `{"_id": 1, "catalog_number": 1234, "parts": [3, 1, 99, 2]}`)
		},
		func() error {
			return w.put(ctx, "relation_parts", `{"_id": 1, "name": "screw"}`, `{"_id": 2, "name": "nut"}`, `{"_id": 3, "name": "plate"}`)
		},
	)
	if err != nil {
		return err
	}
	w.commands = nil
	joined, err := has.Children(ctx, 1, nil)
	if err != nil {
		return err
	}
	return equal("parts, dangling, round trips", fmt.Sprint(joined.Items, joined.Dangling, len(w.commands)), "[{3 plate} {1 screw} {2 nut}] [99] 2")
}

// messages: the parent is in the child; the newest 5,000 by an index on it.
func messages(ctx context.Context, w *world) error {
	type logged struct {
		ID   int    `bson:"_id"`
		Text string `bson:"text"`
	}
	posts, err := relation.New[string, int, logged](w.coll("users"), w.coll("board"), &relation.Options{OwnerField: "posted_by"})
	if err != nil {
		return err
	}
	lines, err := relation.New[string, int, logged](w.coll("relation_hosts"), w.coll("relation_logs"), &relation.Options{OwnerField: "host", Sort: bson.D{{Key: "time", Value: -1}}})
	if err != nil {
		return err
	}
	if err := ensure(ctx, posts, lines); err != nil {
		return err
	}
	if err := w.put(ctx, "users", `{"_id": "sammy"}`); err != nil {
		return err
	}
	if _, err := posts.Insert(ctx, "sammy", logged{1, "Hello"}); err != nil {
		return err
	}
	if err := w.stored(ctx, "board", bson.D{}, `{"_id": 1, "text": "Hello", "posted_by": "sammy"}`); err != nil {
		return err
	}
	var all []any
	start := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	for i := range 5010 {
		all = append(all, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: "web1"}, {Key: "time", Value: start.Add(time.Duration(i) * time.Second)}, {Key: "text", Value: "m"}})
	}
	if _, err := w.coll("relation_logs").InsertMany(ctx, all); err != nil {
		return err
	}
	p, err := w.by(ctx, "relation_logs", "host time", false, func() error {
		newest, err := lines.First(ctx, "web1", 5000, nil)
		if err != nil {
			return err
		}
		return equal("newest", fmt.Sprint(len(newest), newest[0].ID, newest[4999].ID), "5000 5009 10")
	})
	if err == nil && p.keys != 5000 {
		err = fmt.Errorf("%d keys for the newest 5000", p.keys)
	}
	return err
}

// tasks: both sides, equal in one transaction.
func tasks(ctx context.Context, w *world) error {
	owned, err := relation.New[string, int, bson.M](w.coll("people"), w.coll("tasks"), &relation.Options{ChildrenField: "tasks", OwnerField: "owner"})
	if err != nil {
		return err
	}
	if err := ensure(ctx, owned); err != nil {
		return err
	}
	if err := w.put(ctx, "people", `{"_id": "Ann"}`, `{"_id": "Bob"}`); err != nil {
		return err
	}
	for i := range 2 {
		if _, err := owned.Insert(ctx, "Ann", bson.M{"_id": i + 1}); err != nil {
			return err
		}
	}
	return first(
		func() error { return owned.Transfer(ctx, 2, "Bob") },
		func() error {
			return w.stored(ctx, "people", bson.D{}, `{"_id": "Ann", "tasks": [1]}`, `{"_id": "Bob", "tasks": [2]}`)
		},
		func() error {
			return w.stored(ctx, "tasks", bson.D{}, `{"_id": 1, "owner": "Ann"}`, `{"_id": 2, "owner": "Bob"}`)
		},
		func() error { return clean(owned.Check(ctx, nil)) },
	)
}

// teachers: many to many by arrays on both sides, and by a collection between.
func teachers(ctx context.Context, w *world) error {
	arrays, err := relation.New[int, int, bson.M](w.coll("teachers"), w.coll("subjects"), &relation.Options{ChildrenField: "subjects", OwnersField: "teachers"})
	if err != nil {
		return err
	}
	between, err := relation.New[int, int, bson.M](w.coll("teachers"), w.coll("subjects"), &relation.Options{
		Links: w.coll("teacher_subject"), ParentField: "teacher_id", ChildField: "subject_id"})
	if err != nil {
		return err
	}
	if err := ensure(ctx, arrays, between); err != nil {
		return err
	}
	err = first(
		func() error { return w.put(ctx, "teachers", `{"_id": 7}`, `{"_id": 8}`) },
		func() error { return w.put(ctx, "subjects", `{"_id": 3}`, `{"_id": 4}`) },
		func() error { return arrays.Link(ctx, 7, 3, 4) },
		func() error { return arrays.Link(ctx, 8, 3) },
		func() error { return between.Link(ctx, 7, 3) },
		func() error {
			return w.stored(ctx, "teachers", bson.D{}, `{"_id": 7, "subjects": [3, 4]}`, `{"_id": 8, "subjects": [3]}`)
		},
		func() error {
			return w.stored(ctx, "subjects", bson.D{}, `{"_id": 3, "teachers": [7, 8]}`, `{"_id": 4, "teachers": [7]}`)
		},
		func() error {
			return w.stored(ctx, "teacher_subject", bson.D{}, `{"_id": "*", "teacher_id": 7, "subject_id": 3}`)
		},
	)
	if err != nil {
		return err
	}
	_, err = w.by(ctx, "teacher_subject", "subject_id teacher_id", false, func() error {
		who, err := between.Parents(ctx, 3)
		if err != nil {
			return err
		}
		return equal("who teaches it", who, "[7]")
	})
	return err
}
