package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/tree"
)

type node struct {
	ID string `bson:"_id"`
}

func ids(nodes iter.Seq2[node, error]) (string, error) {
	var out []string
	for n, err := range nodes {
		if err != nil {
			return "", err
		}
		out = append(out, n.ID)
	}
	slices.Sort(out)
	return strings.Join(out, " "), nil
}

// shape is a representation of the book categories.
type shape struct {
	as          tree.Representation
	docs        []string // by _id: Books, Databases, Languages, MongoDB, Programming, dbm
	children    string   // the index that Children reads
	descendants string   // the index that Descendants reads
	ofArrays    bool
	joined      string // the index of a $lookup or $graphLookup, which explain does not name
}

var shapes = []shape{
	{as: tree.ParentReferences, children: "parent", docs: []string{
		`{"_id": "Books", "parent": null}`, `{"_id": "Databases", "parent": "Programming"}`, `{"_id": "Languages", "parent": "Programming"}`,
		`{"_id": "MongoDB", "parent": "Databases"}`, `{"_id": "Programming", "parent": "Books"}`, `{"_id": "dbm", "parent": "Databases"}`}},
	{as: tree.ChildReferences, joined: "children", docs: []string{
		`{"_id": "Books", "children": ["Programming"]}`, `{"_id": "Databases", "children": ["MongoDB", "dbm"]}`, `{"_id": "Languages", "children": []}`,
		`{"_id": "MongoDB", "children": []}`, `{"_id": "Programming", "children": ["Databases", "Languages"]}`, `{"_id": "dbm", "children": []}`}},
	{as: tree.AncestorArray, children: "parent", descendants: "ancestors", ofArrays: true, docs: []string{
		`{"_id": "Books", "ancestors": [], "parent": null}`, `{"_id": "Databases", "ancestors": ["Books", "Programming"], "parent": "Programming"}`,
		`{"_id": "Languages", "ancestors": ["Books", "Programming"], "parent": "Programming"}`,
		`{"_id": "MongoDB", "ancestors": ["Books", "Programming", "Databases"], "parent": "Databases"}`,
		`{"_id": "Programming", "ancestors": ["Books"], "parent": "Books"}`, `{"_id": "dbm", "ancestors": ["Books", "Programming", "Databases"], "parent": "Databases"}`}},
	{as: tree.MaterializedPath, joined: "path", docs: []string{
		`{"_id": "Books", "path": null}`, `{"_id": "Databases", "path": ",Books,Programming,"}`, `{"_id": "Languages", "path": ",Books,Programming,"}`,
		`{"_id": "MongoDB", "path": ",Books,Programming,Databases,"}`, `{"_id": "Programming", "path": ",Books,"}`, `{"_id": "dbm", "path": ",Books,Programming,Databases,"}`}},
	{as: tree.NestedSets, joined: "left right", docs: []string{
		`{"_id": "Books", "left": 1, "right": 12, "parent": null}`, `{"_id": "Databases", "left": 3, "right": 8, "parent": "Programming"}`,
		`{"_id": "Languages", "left": 9, "right": 10, "parent": "Programming"}`, `{"_id": "MongoDB", "left": 4, "right": 5, "parent": "Databases"}`,
		`{"_id": "Programming", "left": 2, "right": 11, "parent": "Books"}`, `{"_id": "dbm", "left": 6, "right": 7, "parent": "Databases"}`}},
}

func trees(ctx context.Context, w *world) error {
	for _, s := range shapes {
		if err := books(ctx, w, s); err != nil {
			return fmt.Errorf("%v: %w", s.as, err)
		}
	}
	return first(
		func() error { return paths(ctx, w) },
		func() error { return graph(ctx, w) },
		func() error { return products(ctx, w) },
		func() error { return organisation(ctx, w) },
	)
}

func collectionOf(as tree.Representation) string { return "books_" + as.String() }

func books(ctx context.Context, w *world, s shape) error {
	name := collectionOf(s.as)
	categories, err := tree.New[string, node](w.coll(name), s.as, nil)
	if err != nil {
		return err
	}
	if err := ensure(ctx, categories); err != nil {
		return err
	}
	for _, pair := range []string{"Books", "Programming<Books", "Databases<Programming", "Languages<Programming", "MongoDB<Databases", "dbm<Databases"} {
		id, parent, under := strings.Cut(pair, "<")
		position := categories.AsRoot()
		if under {
			position = categories.Under(parent)
		}
		if _, err := categories.Insert(ctx, node{id}, position); err != nil {
			return err
		}
	}
	if err := w.stored(ctx, name, bson.D{}, s.docs...); err != nil {
		return err
	}
	children := func() error {
		got, err := ids(categories.Children(ctx, "Databases"))
		if err != nil {
			return err
		}
		return equal("children", got, "MongoDB dbm")
	}
	descendants := func() error {
		got, err := ids(categories.Descendants(ctx, "Programming", 0))
		if err != nil {
			return err
		}
		return equal("descendants", got, "Databases Languages MongoDB dbm")
	}
	parent := func() error {
		got, err := categories.Parent(ctx, "MongoDB")
		if err != nil {
			return err
		}
		return equal("parent", got.ID, "Databases")
	}
	reads := func(index string, ofArrays bool, call func() error) func() error {
		return func() error {
			if index == "" {
				return call()
			}
			_, err := w.by(ctx, name, index, ofArrays, call)
			return err
		}
	}
	joined := map[tree.Representation][]func() error{
		tree.ChildReferences: {parent}, tree.MaterializedPath: {children, descendants}, tree.NestedSets: {descendants},
	}
	for _, call := range joined[s.as] {
		if err := w.used(ctx, name, s.joined, call); err != nil {
			return err
		}
	}
	return first(reads(s.children, false, children), reads(s.descendants, s.ofArrays, descendants), parent,
		func() error { return clean(categories.Check(ctx, nil)) })
}

// paths: the whole tree in the order of the paths, and prefixes that are index ranges.
func paths(ctx context.Context, w *world) error {
	categories, err := tree.New[string, node](w.coll(collectionOf(tree.MaterializedPath)), tree.MaterializedPath, nil)
	if err != nil {
		return err
	}
	coll := w.coll(collectionOf(tree.MaterializedPath))
	const index = "path"
	whole, err := w.by(ctx, coll.Name(), index, false, func() error {
		cursor, err := coll.Find(ctx, bson.D{}, options.Find().SetSort(doc(`{"path": 1}`)))
		if err != nil {
			return err
		}
		var all []node
		if err := cursor.All(ctx, &all); err != nil {
			return err
		}
		return equal("the first by path", all[0].ID, "Books")
	})
	if err != nil {
		return err
	}
	if slices.Contains(whole.stages, "SORT") {
		return fmt.Errorf("sorted: %s", whole.text)
	}
	for id, prefix := range map[string]string{"Books": ",Books,", "Programming": ",Books,Programming,"} {
		p, err := w.by(ctx, coll.Name(), index, false, func() error {
			filter, err := categories.DescendantsFilter(ctx, id, 0)
			if err != nil {
				return err
			}
			_, err = w.count(ctx, coll.Name(), filter)
			return err
		})
		if err != nil {
			return err
		}
		bounds := fmt.Sprintf(`[\"%s\", \"%s-\")`, prefix, strings.TrimSuffix(prefix, ","))
		if !strings.Contains(p.text, bounds) {
			return fmt.Errorf("below %s: no range %s in %s", id, bounds, p.text)
		}
	}
	return nil
}

// graph: a node with two parents.
func graph(ctx context.Context, w *world) error {
	parts, err := tree.New[string, node](w.coll("graph"), tree.ChildReferences, &tree.Options{Graph: true})
	if err != nil {
		return err
	}
	if err := ensure(ctx, parts); err != nil {
		return err
	}
	for _, id := range []string{"Databases", "Languages"} {
		if _, err := parts.Insert(ctx, node{id}, parts.AsRoot()); err != nil {
			return err
		}
	}
	if _, err := parts.Insert(ctx, node{"SQL"}, parts.Under("Databases")); err != nil {
		return err
	}
	if err := parts.Link(ctx, "Languages", "SQL"); err != nil {
		return err
	}
	if err := w.stored(ctx, "graph", bson.D{}, `{"_id": "Databases", "children": ["SQL"]}`, `{"_id": "Languages", "children": ["SQL"]}`, `{"_id": "SQL", "children": []}`); err != nil {
		return err
	}
	return w.used(ctx, "graph", "children", func() error {
		got, err := ids(parts.Parents(ctx, "SQL"))
		if err != nil {
			return err
		}
		return equal("parents", got, "Databases Languages")
	})
}

// products: other field names for the ancestors and the parent.
func products(ctx context.Context, w *world) error {
	categories, err := tree.New[string, node](w.coll("categories"), tree.AncestorArray,
		&tree.Options{AncestorsField: "ancestor_categories", ParentField: "parent_category"})
	if err != nil {
		return err
	}
	if err := ensure(ctx, categories); err != nil {
		return err
	}
	position := categories.AsRoot()
	for _, id := range []string{"Computer Parts", "Storage", "Hard Drives", "Solid State Drive"} {
		if _, err := categories.Insert(ctx, node{id}, position); err != nil {
			return err
		}
		position = categories.Under(id)
	}
	if err := w.stored(ctx, "categories", doc(`{"_id": "Solid State Drive"}`),
		`{"_id": "Solid State Drive", "ancestor_categories": ["Computer Parts", "Storage", "Hard Drives"], "parent_category": "Hard Drives"}`); err != nil {
		return err
	}
	_, err = w.by(ctx, "categories", "ancestor_categories", true, func() error {
		got, err := ids(categories.Descendants(ctx, "Storage", 0))
		if err != nil {
			return err
		}
		return equal("below Storage", got, "Hard Drives Solid State Drive")
	})
	return err
}

// organisation: the chain from an employee to the chief executive, by the array and by
// $graphLookup, and a department that moves.
func organisation(ctx context.Context, w *world) error {
	for _, as := range []tree.Representation{tree.AncestorArray, tree.ParentReferences} {
		name := "staff_" + as.String()
		staff, err := tree.New[string, node](w.coll(name), as, &tree.Options{ParentField: "manager", AncestorsField: "managers"})
		if err != nil {
			return err
		}
		if err := ensure(ctx, staff); err != nil {
			return err
		}
		for _, pair := range []string{"CEO", "CTO<CEO", "CFO<CEO", "Platform<CTO", "Dev<Platform"} {
			id, parent, under := strings.Cut(pair, "<")
			position := staff.AsRoot()
			if under {
				position = staff.Under(parent)
			}
			if _, err := staff.Insert(ctx, node{id}, position); err != nil {
				return err
			}
		}
		chain := func(want string) error {
			above, err := staff.Ancestors(ctx, "Dev")
			if err != nil {
				return err
			}
			return equal("chain", above, want)
		}
		err = first(
			func() error { return chain("[{CEO} {CTO} {Platform}]") },
			func() error { return staff.Move(ctx, "Platform", staff.Under("CFO")) },
			func() error { return chain("[{CEO} {CFO} {Platform}]") },
			func() error { return clean(staff.Check(ctx, nil)) },
		)
		if err != nil {
			return fmt.Errorf("%v: %w", as, err)
		}
	}
	return w.stored(ctx, "staff_AncestorArray", doc(`{"_id": {"$in": ["Dev", "Platform"]}}`),
		`{"_id": "Dev", "managers": ["CEO", "CFO", "Platform"], "manager": "Platform"}`, `{"_id": "Platform", "managers": ["CEO", "CFO"], "manager": "CFO"}`)
}

type article struct {
	ID int `bson:"_id"`
}

func pages(ctx context.Context, w *world) error {
	articles := w.coll("articles")
	var docs []any
	for i := range 3000 {
		docs = append(docs, article{i + 1})
	}
	if _, err := articles.InsertMany(ctx, docs); err != nil {
		return err
	}
	pager, err := paging.New[article](articles, bson.D{{Key: "_id", Value: 1}}, nil)
	if err != nil {
		return err
	}
	token, err := pager.Token(nil, article{2500})
	if err != nil {
		return err
	}
	// Keyset, next and previous: 20 documents cost some 22 keys at any depth.
	turn := func(request paging.Request, from, to int) func() error {
		return func() error {
			p, err := w.by(ctx, "articles", "_id", false, func() error {
				page, err := pager.Page(ctx, nil, request)
				if err != nil {
					return err
				}
				return equal("page", fmt.Sprint(len(page.Items), page.Items[0].ID, page.Items[len(page.Items)-1].ID, page.HasPrev, page.HasNext),
					fmt.Sprint(to-from+1, from, to, true, true))
			})
			if err == nil && p.keys > 23 {
				err = fmt.Errorf("%d keys for a page", p.keys)
			}
			return err
		}
	}
	if err := first(turn(paging.Request{After: token}, 2501, 2520), turn(paging.Request{Before: token}, 2480, 2499)); err != nil {
		return err
	}
	// Hybrid: from page 10 of ten to page 13.
	tens, err := paging.New[article](articles, nil, &paging.Options{PageSize: 10, Group: 10})
	if err != nil {
		return err
	}
	tenth, err := tens.Page(ctx, nil, paging.Request{Number: 10})
	if err != nil {
		return err
	}
	if err := equal("page 10 and its group", fmt.Sprint(tenth.Items[9].ID, tenth.GroupFirst, tenth.GroupLast), "100 1 10"); err != nil {
		return err
	}
	w.commands = nil
	if err := turnTo(ctx, tens, tenth.Position, 13, 121); err != nil {
		return err
	}
	jump := w.commands[len(w.commands)-1]
	if skip := jump.Lookup("skip").AsInt64(); skip < 20 || skip > 21 || !strings.Contains(jump.Lookup("filter").String(), `"_id"`) {
		return fmt.Errorf("page 13 from page 10: %s", jump)
	}
	return turnTo(ctx, tens, tenth.Position, 20, 191)
}

func turnTo(ctx context.Context, pager *paging.Pager[article], from string, number int64, want int) error {
	page, err := pager.Page(ctx, nil, paging.Request{Number: number, From: from})
	if err != nil {
		return err
	}
	return equal("first of page", page.Items[0].ID, fmt.Sprint(want))
}
