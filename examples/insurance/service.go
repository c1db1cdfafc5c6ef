package main

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// cover is what a policy covers: of one of several kinds.
type cover interface{ Premium() int }

type itemCover struct {
	Name  string `json:"name" bson:"name"`
	Value int    `json:"value" bson:"value"`
}

type travelCover struct {
	Days int `json:"days" bson:"days"`
}

// otherCover is a cover of a kind that this program does not know: shown and kept as it is.
type otherCover struct{ polymorphic.Unknown }

func (otherCover) Premium() int    { return 0 }
func (c itemCover) Premium() int   { return c.Value / 100 }
func (c travelCover) Premium() int { return 2 * c.Days }

var covers = polymorphic.Must(polymorphic.New([]polymorphic.Kind{
	polymorphic.Of[itemCover]("item"), polymorphic.Of[travelCover]("travel"),
}, &polymorphic.Options[cover]{Unknown: func(u polymorphic.Unknown) cover { return otherCover{u} }}))

type coverKinds struct{}

func (coverKinds) Kinds() *polymorphic.Kinds[cover] { return covers }

type coverDoc = polymorphic.Doc[cover, coverKinds]

// policy is a policy of the newest schema.
type policy struct {
	ID     string     `json:"id" bson:"_id"`
	Holder string     `json:"holder" bson:"name"`
	Plan   string     `json:"plan" bson:"policy"`
	Covers []coverDoc `json:"covers" bson:"covers"`
}

// steps lead from policies that list the names of their items to those with covers.
var steps = schemaversion.Must(schemaversion.NewChain([]schemaversion.Step{{Up: func(doc bson.D) (out bson.D, err error) {
	all := bson.A{}
	for _, e := range doc {
		if e.Key != "items" {
			out = append(out, e)
			continue
		}
		items, ok := e.Value.(bson.A)
		if !ok {
			return nil, errors.New("items is no list")
		}
		for _, name := range items {
			all = append(all, bson.D{{Key: "kind", Value: "item"}, {Key: "name", Value: name}, {Key: "value", Value: 0}})
		}
	}
	return append(out, bson.E{Key: "covers", Value: all}), nil
}}}, nil))

type policySteps struct{}

func (policySteps) Chain() *schemaversion.Chain { return steps }

// stored is a policy as it lies in the collection, of whatever version.
type stored = schemaversion.Doc[policy, policySteps]

// service keeps policies with their revisions, and looks for customers of two companies that
// were bought, each with documents of its own.
type service struct {
	db        *mongo.Database
	policies  *versioning.History[string, stored]
	customers mongo.Pipeline
}

func newService(db *mongo.Database) (*service, error) {
	policies, err := versioning.New[string, stored](db.Collection("current_policies"), db.Collection("policy_revisions"),
		&versioning.Options{DocumentIDField: "policy_id"})
	if err != nil {
		return nil, err
	}
	companies, err := polymorphic.New([]polymorphic.Kind{polymorphic.Of[shireCustomer]("shire"), polymorphic.Of[rohanCustomer]("rohan")}, &polymorphic.Options[any]{KindField: "company"})
	if err != nil {
		return nil, err
	}
	customers, err := companies.View(
		polymorphic.Source{Collection: "shire_customers", Kind: "shire"},
		polymorphic.Source{Collection: "rohan_customers", Kind: "rohan", Map: mongo.Pipeline{{{Key: "$project", Value: bson.D{
			{Key: "name", Value: bson.D{{Key: "$concat", Value: bson.A{"$first_name", " of ", "$house"}}}}, {Key: "since", Value: "$joined.year"},
		}}}}},
	)
	return &service{db, policies, customers}, err
}

func (s *service) ensureIndexes(ctx context.Context) error { return s.policies.EnsureIndexes(ctx) }

func (s *service) create(ctx context.Context, p policy, author string) (versioning.Revision[stored], error) {
	return s.policies.Insert(ctx, stored{V: p}, versioning.Change{Author: author, Reason: "new"})
}

// add adds a cover. Two that add at once both succeed: Update repeats what conflicts.
func (s *service) add(ctx context.Context, id string, c cover, change versioning.Change) (versioning.Revision[stored], error) {
	return s.policies.Edit(ctx, id, func(p *stored) error {
		p.V.Covers = append(p.V.Covers, coverDoc{V: c})
		return nil
	}, change)
}

// policy is a policy as it was at a time, now for the zero time.
func (s *service) policy(ctx context.Context, id string, at time.Time) (versioning.Revision[stored], error) {
	if at.IsZero() {
		return s.policies.Get(ctx, id)
	}
	return s.policies.AsOf(ctx, id, at)
}

// history shows the revisions of a policy. One that a newer program has written is named in its place.
func (s *service) history(ctx context.Context, id string) ([]revision, error) {
	out := []revision{}
	for r, err := range s.policies.Revisions(ctx, id) {
		switch {
		case errors.Is(err, mongopatterns.ErrNewer):
			out = append(out, revision{Error: newer})
		case err != nil:
			return nil, err
		default:
			out = append(out, shown(r))
		}
	}
	return out, nil
}

// shireCustomer and rohanCustomer are the customers of each company as they are stored.
type shireCustomer struct {
	Name  string `bson:"name"`
	Since int    `bson:"since"`
}

type rohanCustomer struct {
	FirstName string             `bson:"first_name"`
	House     string             `bson:"house"`
	Joined    struct{ Year int } `bson:"joined"`
}

// customer is either of them in the list.
type customer struct {
	Company string `json:"company" bson:"company"`
	Name    string `json:"name" bson:"name"`
	Since   int    `json:"since" bson:"since"`
}

// find lists the customers of both companies, the longest first.
func (s *service) find(ctx context.Context) (out []customer, err error) {
	out = []customer{}
	pipeline := append(append(mongo.Pipeline{}, s.customers...), bson.D{{Key: "$sort", Value: bson.D{{Key: "since", Value: 1}, {Key: "name", Value: 1}}}})
	cursor, err := s.db.Collection("shire_customers").Aggregate(ctx, pipeline, options.Aggregate())
	if err != nil {
		return nil, err
	}
	err = cursor.All(ctx, &out)
	return out, err
}

// check finds what is inconsistent in the whole database.
func (s *service) check(ctx context.Context) (problems []mongopatterns.Problem, err error) {
	for p, err := range mongopatterns.CheckAll(ctx, s.policies) {
		if err != nil {
			return nil, err
		}
		problems = append(problems, p)
	}
	return problems, nil
}
