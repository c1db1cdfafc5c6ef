package maintain

import (
	"context"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/txn"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// Orphans yields a copy of problem for each value of a field of coll that is not the _id of a document of
// parents. Have is the value, null for undefined, and ID the _id of one of the documents with it. Before it reports a
// batch, it reads again in one snapshot what could be an _id.
//
// Cost: a scan of coll; 3 round trips more for each batch of orphans.
func Orphans(ctx context.Context, coll, parents *scoped.Collection, field string, work *mongopatterns.Work, problem mongopatterns.Problem) iter.Seq2[mongopatterns.Problem, error] {
	o := orphans{coll: coll, parents: parents, field: field, problem: problem}
	lost := mongo.Pipeline{o.group(),
		expr.Op("$lookup", expr.D("from", parents.Name(), "localField", "_id", "foreignField", "_id",
			"pipeline", parents.Scope().Stages(mongo.Pipeline{expr.Op("$project", onlyID)}), "as", "parent")),
		expr.Op("$match", expr.D("parent", bson.A{})),
	}
	return Check(ctx, coll, work, Scan{Pipeline: lost}, o.confirm)
}

// orphans are the arguments of Orphans.
type orphans struct {
	coll, parents *scoped.Collection
	field         string
	problem       mongopatterns.Problem
}

var onlyID = expr.D("_id", 1)

// group is the stage that groups documents by the field: {_id: its value, n, first}.
func (o orphans) group() bson.D {
	named := expr.IfNull(expr.Field(o.field), nil) // $lookup fails on undefined, which $ifNull replaces
	return expr.Op("$group", expr.D("_id", named, "n", expr.Op("$sum", 1), "first", expr.Op("$min", "$_id")))
}

// of is the problem of a group.
func (o orphans) of(group bson.Raw) mongopatterns.Problem {
	p := o.problem
	p.Collection, p.Field, p.ID, p.Have = o.coll.Name(), o.field, group.Lookup("first"), group.Lookup("_id")
	p.Detail = fmt.Sprintf("%d documents", group.Lookup("n").AsInt64())
	return p
}

// confirm returns the problems of groups whose parents did not exist, and do not exist in a snapshot.
func (o orphans) confirm(ctx context.Context, groups []bson.Raw) ([]mongopatterns.Problem, error) {
	var never, lost []mongopatterns.Problem
	these := bson.A{}
	for _, group := range groups {
		if id := group.Lookup("_id"); value.CheckID(id) == nil {
			these = append(these, id)
		} else { // no document has such an _id, and $in refuses some of them or takes them for a pattern
			never = append(never, o.of(group))
		}
	}
	if len(these) == 0 {
		return never, nil
	}
	err := txn.Run(ctx, o.coll, func(ctx context.Context) (err error) {
		lost, err = o.among(ctx, these)
		return err
	})
	return append(never, lost...), err
}

// among reads the groups with these values, and returns the problems of those whose parents do not exist.
func (o orphans) among(ctx context.Context, these bson.A) (problems []mongopatterns.Problem, err error) {
	there := map[string]bool{}
	for parent, err := range cursor.Each(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return o.parents.Find(ctx, expr.D("_id", expr.Op("$in", these)), options.Find().SetProjection(onlyID))
	}) {
		if err != nil {
			return nil, err
		}
		there[value.Key(parent.Current.Lookup("_id"))] = true
	}
	for group, err := range cursor.Docs(ctx, func(ctx context.Context) (*mongo.Cursor, error) {
		return o.coll.Aggregate(ctx, mongo.Pipeline{expr.Op("$match", expr.D(o.field, expr.Op("$in", these))), o.group()})
	}) {
		if err != nil {
			return nil, err
		}
		if id := group.Lookup("_id"); !there[value.Key(id)] && value.CheckID(id) == nil {
			problems = append(problems, o.of(group))
		}
	}
	return problems, nil
}
