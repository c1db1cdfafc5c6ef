package advise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/relation"
)

// The rule: at least embedReads reads join the children of a parent by $lookup, at least half of the reads of the
// parents and embedShare of those of the children, which are written less often; a parent has embedMost children of
// embedBytes at most, relationFound of the references name one, and nothing refers to a child.
const (
	embedReads = 50
	embedShare = 0.9
	embedMost  = 100
	embedBytes = 64 << 10
)

// gather notes a join from _id to a field of a collection.
func (t *traffic) gather(more joins) {
	i := slices.IndexFunc(t.gathers, func(j joins) bool { return j.from == more.from && j.local == more.local })
	if i < 0 {
		t.gathers = append(t.gathers, more)
		return
	}
	t.gathers[i].calls += more.calls
}

// continues reports whether outlier or subset keep a part of a list in another collection. Subset takes lists of documents,
// and beside others a count may be anybody's.
func (c *collection) continues(list string) bool {
	if !c.has(list, "array") {
		return false
	}
	return c.has(list+"_moved") || c.has(list+"_overflow") || c.has(list+"_count") && c.element(list) == "object"
}

// beside is what the commands say of children that reads join to their parents.
type beside struct {
	with    int64 // reads of all children of one parent
	changes int64 // writes to children by themselves
}

func (c *collection) beside(reference string) (b beside) {
	for _, r := range c.finds {
		if !slices.ContainsFunc(r.match, func(name string) bool { return name != reference }) && len(r.match) > 0 {
			b.with += r.calls
		}
	}
	b.changes = c.deletes
	for _, w := range c.writes {
		b.changes += w.calls
	}
	return b
}

// together looks for children that are always read with their parent.
func (l *looker) together(ctx context.Context, c *collection, j joins) error {
	children := l.all[j.from]
	if j.calls < embedReads || children == nil || j.from == c.name || children.few() && c.few() {
		return nil // an index on the reference is all that it needs
	}
	b := children.beside(j.local)
	if err := l.embeddable(c, children, j, b); err != nil {
		return err
	}
	by, err := l.named(ctx, children)
	if err != nil {
		return err
	}
	if by != "" {
		return declined(by + " has references to their _id")
	}
	check, err := l.bounded(ctx, children, j.local)
	if err != nil {
		return err
	}
	refs, err := l.references(ctx, children, j.local, c.name, relationFound)
	if err != nil {
		return err
	}
	if !refs.enough {
		return declined(fmt.Sprintf("%s of the references name no document of %s", share(refs.named-refs.found, refs.named), c.name))
	}
	l.embedFinding(ctx, c, children, j, b, check, refs)
	return nil
}

// embeddable declines what the two collections and their commands speak against.
func (l *looker) embeddable(c, children *collection, j joins, b beside) error {
	list := children.name
	switch {
	case l.overflows(children) != nil || slices.ContainsFunc(c.tops(), c.continues):
		return declined("is in another pattern already: a list of the parents continues there")
	case strings.ContainsAny(list, ".$") || c.has(list) || strings.Contains(j.local, ".") || children.has(j.local, "array"):
		return declined("they could be embedded, but for names with dots, a field of that name or references in lists")
	case 2*j.calls < c.reads():
		return declined(fmt.Sprintf("%d of %d reads join them", j.calls, c.reads()))
	case float64(b.with) < embedShare*float64(children.reads()):
		return declined(fmt.Sprintf("%d of %d reads ask for all of one parent", b.with, children.reads()))
	case b.changes > j.calls:
		return declined(fmt.Sprintf("they are written more often by themselves (%d) than read with the parent (%d)", b.changes, j.calls))
	}
	return nil
}

// bounded counts the children, and declines if a parent has many of them.
func (l *looker) bounded(ctx context.Context, children *collection, reference string) (Check, error) {
	check, err := l.check(ctx, bson.D{
		{Key: "aggregate", Value: children.name},
		{Key: "pipeline", Value: bson.A{
			d("$match", d(reference, d("$ne", nil))),
			d("$group", bson.D{{Key: "_id", Value: "$" + reference}, {Key: "n", Value: d("$sum", 1)}, {Key: "bytes", Value: d("$sum", d("$bsonSize", "$$ROOT"))}}),
			d("$group", bson.D{{Key: "_id", Value: nil}, {Key: "children", Value: d("$sum", "$n")}, {Key: "parents", Value: d("$sum", 1)},
				{Key: "most", Value: d("$max", "$n")}, {Key: "bytes", Value: d("$sum", "$bytes")}, {Key: "largest", Value: d("$max", "$bytes")}}),
		}},
		{Key: "cursor", Value: bson.D{}},
	}, "cursor", "firstBatch", "0", "children")
	if err != nil {
		return check, err
	}
	if most, largest := check.figure("most"), check.figure("largest"); most > embedMost || largest > embedBytes {
		return check, declined(fmt.Sprintf("a parent has up to %s of %s together: they may grow without a bound", group(most), bytes(largest)))
	}
	return check, nil
}

func (l *looker) embedFinding(ctx context.Context, c, children *collection, j joins, b beside, check Check, refs leads) {
	list, named, found := children.name, refs.named, refs.found
	parents, size := check.figure("parents"), check.figure("bytes")
	code := l.relationCode(ctx, c, children, j.local, list)
	variable, _, _ := strings.Cut(code, ",")
	f := Finding{
		Pattern: "relation", Collection: c.name, Path: list,
		Summary: fmt.Sprintf("%d of %d reads join the documents of %s, which are read with their parent in %d of %d reads. %s (counted) have %s, %s at most: embedded in a list they come with it.",
			j.calls, c.reads(), children.name, b.with, children.reads(), many(parents, "parent"), many(check.Answer, "child document"), group(check.figure("most"))),
		Sure: "counted: children and bytes; " + refs.how + ": references; of queries: those that were seen",
		Facts: []Fact{
			{"children with a parent", check.Answer, counted},
			{"parents that have some", parents, counted},
			{"children of one parent at most", check.figure("most"), counted},
			{"bytes of the children", size, counted},
			{"bytes of those of one parent at most", check.figure("largest"), counted},
			{"references that lead to a document of " + c.name, found, refs.how},
			{"reads that join them", j.calls, seen},
			{"reads of the children by other fields", children.reads() - b.with, seen},
			{"writes to children", b.changes, seen},
		},
		Saving: Interval{Low: found, High: found, Before: max(children.count, found), Unit: "documents", What: "of " + children.name + ", which become elements, and their keys of its indexes"},
		// The reference goes, the place in the list comes.
		Grows: []Interval{{Low: max(size-check.Answer*int64(len(j.local)+20), 0), High: size + 8*check.Answer + parents*int64(len(list)+8), Before: c.size, Unit: "bytes", What: ofDocuments}},
		Code:  code,
		Adopt: fmt.Sprintf("err = %s.EnsureIndexes(ctx)\nresult, err := %s.Repair(ctx, nil) // the lists, of the references\nresult, err = %s.Embed(ctx, nil)", variable, variable, variable),
		try:   tryEmbed(c, children, j), others: []string{children.name}, moves: []string{children.name},
		Check: check,
		Against: []string{
			"Children that grow in number without a bound must stay documents: one may have 16 MB.",
			"A query for children by another field finds their parents, and a child that is written alone writes its parent.",
			"Once they are embedded no package is needed: a new child is a $push.",
		},
	}
	if found < named {
		f.Against = append(f.Against, fmt.Sprintf("%s of %s %s no document of %s (%s): they stay as they are.", group(named-found), many(named, "reference"), verb(named-found, "name"), c.name, refs.how))
	}
	l.found(f)
}

func tryEmbed(c, children *collection, j joins) trying {
	return func(ctx context.Context, db *mongo.Database) (int64, service, error) {
		all, err := relation.New[any, any, bson.M](db.Collection(c.name), db.Collection(children.name), &relation.Options{ChildrenField: children.name, OwnerField: j.local})
		if err != nil {
			return 0, service{}, err
		}
		before, err := db.Collection(children.name).CountDocuments(ctx, bson.D{})
		if err != nil {
			return 0, service{}, err
		}
		if err := errors.Join(all.EnsureIndexes(ctx), adopting(all.Repair(ctx, nil)), adopting(all.Embed(ctx, nil))); err != nil {
			return 0, service{}, err
		}
		after, err := db.Collection(children.name).CountDocuments(ctx, bson.D{})
		return before - after, embedding(j), err
	}
}

// embedding reads children where they are: in the documents that joined them.
func embedding(j joins) service {
	s := sending(func(c command) bson.D {
		var stages bson.A
		for _, p := range c.pipeline {
			name, value := stage(p)
			lookup, _ := value.(bson.D)
			local, foreign, inner := equality(lookup)
			if name != "$lookup" || at(lookup, "from") != j.from {
				stages = append(stages, p)
				continue
			}
			as, _ := at(lookup, "as").(string)
			if local != "_id" || foreign != j.local || len(inner) > 0 || as == "" {
				return nil
			}
			child := d("$mergeObjects", bson.A{"$$this", d(j.local, "$_id")})
			list := d("$map", bson.D{{Key: "input", Value: d("$ifNull", bson.A{"$" + j.from, bson.A{}})}, {Key: "in", Value: child}})
			stages = append(stages, d("$set", d(as, list)))
		}
		if stages == nil {
			return c.body
		}
		return with(c.body, "pipeline", stages)
	})
	s.unordered = true
	return s
}
