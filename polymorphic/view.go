package polymorphic

import (
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// Source is a collection of a View.
type Source struct {
	// Collection is its name.
	Collection string
	// Kind is the value that KindField gets in its documents. Leave it empty if they have one already.
	Kind string
	// Map are the stages that give its documents the common shape, usually one $project or $set.
	// Leave it nil if they have it already.
	Map mongo.Pipeline
}

// View returns a pipeline over several collections, each mapped to a common shape and with its
// kind. Run it on the first source, or make a view of it:
//
//	err = db.CreateView(ctx, "customers", sources[0].Collection, pipeline)
//
// A $match after it uses the indexes of the sources, for fields that Map does not change. The
// server refuses it in transactions.
func (k *Kinds[I]) View(sources ...Source) (pipeline mongo.Pipeline, err error) {
	defer fault.In(&err, "polymorphic.View")
	for i, s := range sources {
		if _, ok := k.byName[s.Kind]; s.Collection == "" || s.Kind != "" && !ok {
			return nil, fault.Invalid("sources[%d]: the collection %q is empty, or there is no kind %q", i, s.Collection, s.Kind)
		}
		stages := append(mongo.Pipeline{}, s.Map...)
		if s.Kind != "" {
			stages = append(stages, expr.Op("$set", expr.D(k.opts.KindField, expr.Literal(s.Kind))))
		}
		if i == 0 {
			pipeline = stages
			continue
		}
		pipeline = append(pipeline, expr.Op("$unionWith", expr.D("coll", s.Collection, "pipeline", stages)))
	}
	if len(sources) == 0 {
		return nil, fault.Invalid("sources: the list is empty")
	}
	return pipeline, nil
}
