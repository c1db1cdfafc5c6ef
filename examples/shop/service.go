package main

import (
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// service is the shop on a database. Each helper is a pattern on a collection;
// several share the products, each with fields of its own:
//
//	categories          tree
//	products            attribute (specs), subset (reviews), outlier (buyers)
//	reviews             all reviews, of which products hold the newest
//	buyers              what is too much for a product's own list
//	customers           versioning, and the source of the copies in orders
//	customer_revisions  what customers were before
//	orders              extref to customers and products
//
// Lists are paged by filters that the helpers make.
type service struct {
	categoryColl, productColl, buyerColl, orderColl *mongo.Collection

	categories *tree.Tree[string, category]
	specs      *attribute.Attributes[string, any]
	numbers    *attribute.Attributes[string, float64] // the same attributes
	reviews    *subset.Subset[string, review]
	buyers     *outlier.Lists[string, string]
	customers  *versioning.History[string, customer]

	customerCopies *extref.Source[string, customer]
	productCopies  *extref.Source[string, product]

	productPages map[string]*paging.Pager[listed] // by the name of their order
	reviewPages  *paging.Pager[review]
	orderPages   *paging.Pager[order]
}

// check looks for what is inconsistent in the whole database.
func (s *service) check(ctx context.Context) iter.Seq2[mongopatterns.Problem, error] {
	return mongopatterns.CheckAll(ctx, s.categories, s.specs, s.reviews, s.buyers, s.customers, s.customerCopies, s.productCopies)
}

type settings struct {
	tokenKeys    [][]byte // sign page tokens
	keptReviews  int      // reviews inside a product; 0: ten
	insideBuyers int      // buyers inside a product; 0: a thousand
}

func newService(db *mongo.Database, set settings) (*service, error) {
	reviewColl, customerColl := db.Collection("reviews"), db.Collection("customers")
	s := &service{
		categoryColl: db.Collection("categories"),
		productColl:  db.Collection("products"),
		buyerColl:    db.Collection("buyers"),
		orderColl:    db.Collection("orders"),
		productPages: map[string]*paging.Pager[listed]{},
	}
	var err error
	s.categories, err = tree.New[string, category](s.categoryColl, tree.AncestorArray, &tree.Options{
		ParentField:    "parent_category",
		AncestorsField: "ancestor_categories",
		NameField:      "name",
	})
	if err != nil {
		return nil, err
	}
	s.specs, err = attribute.New[string, any](s.productColl, &attribute.Options{
		ArrayField: "specs",
		Indexes:    []attribute.Index{{Prefix: []string{"category"}}},
	})
	if err != nil {
		return nil, err
	}
	s.numbers = attribute.As[float64](s.specs)
	s.reviews, err = subset.New[string, review](s.productColl, reviewColl, &subset.Options{
		ParentField: "product",
		ArrayField:  "reviews",
		N:           set.keptReviews,
		Sort:        bson.D{{Key: "at", Value: -1}},
		Fields:      []string{"author", "rating", "text"},
		CountField:  "review_count",
		Values:      []subset.Value{{Field: "rating", Sum: "rating_sum", Mean: "rating"}},
	})
	if err != nil {
		return nil, err
	}
	s.buyers, err = outlier.New[string, string](s.productColl, s.buyerColl, &outlier.Options{
		ArrayField:  "buyers",
		FlagField:   "has_more_buyers",
		ParentField: "product",
		Set:         true,
		MaxCount:    set.insideBuyers,
	})
	if err != nil {
		return nil, err
	}
	s.customers, err = versioning.New[string, customer](customerColl, db.Collection("customer_revisions"), &versioning.Options{
		DocumentIDField: "customer",
	})
	if err != nil {
		return nil, err
	}
	// An order follows its customer's name and keeps the address it went to. The copies
	// have no version, as versioning raises none in the customer.
	s.customerCopies, err = extref.New[string, customer](customerColl, []extref.Target{{
		Collection:  s.orderColl,
		Path:        "customer",
		Unversioned: true,
		Fields:      []extref.Field{{Path: "name"}, {Path: "address", Frozen: true}},
	}}, nil)
	if err != nil {
		return nil, err
	}
	// Its lines keep name and price of the products as they were.
	s.productCopies, err = extref.New[string, product](s.productColl, []extref.Target{{
		Collection:  s.orderColl,
		Path:        "lines",
		Array:       true,
		IDField:     "sku",
		Unversioned: true,
		Fields:      []extref.Field{{Path: "name", Frozen: true}, {Path: "price", Frozen: true}},
		OnDelete:    mongopatterns.Keep,
	}}, nil)
	if err != nil {
		return nil, err
	}
	return s, s.newPagers(reviewColl, set.tokenKeys)
}

func (s *service) newPagers(reviewColl *mongo.Collection, keys [][]byte) error {
	var err error
	for name, order := range map[string]bson.D{
		"name":   {{Key: "name", Value: 1}},
		"price":  {{Key: "price", Value: 1}},
		"-price": {{Key: "price", Value: -1}},
	} {
		s.productPages[name], err = paging.New[listed](s.productColl, order, &paging.Options{
			Equality:    []string{"category"},
			SigningKeys: keys,
			Find: options.Find().SetProjection(bson.D{
				{Key: "name", Value: 1}, {Key: "category", Value: 1}, {Key: "price", Value: 1}, {Key: "rating", Value: 1},
			}),
		})
		if err != nil {
			return err
		}
	}
	s.reviewPages, err = paging.New[review](reviewColl, s.reviews.Sort(), &paging.Options{
		Equality: []string{"product"}, SigningKeys: keys,
	})
	if err != nil {
		return err
	}
	s.orderPages, err = paging.New[order](s.orderColl, bson.D{{Key: "placed", Value: -1}}, &paging.Options{
		Equality: []string{"customer._id"}, SigningKeys: keys,
	})
	return err
}

func (s *service) ensureIndexes(ctx context.Context) error {
	helpers := []interface{ EnsureIndexes(context.Context) error }{
		s.categories, s.specs, s.reviews, s.buyers, s.customers, s.customerCopies, s.productCopies,
		s.reviewPages, s.orderPages,
	}
	for _, pager := range s.productPages {
		helpers = append(helpers, pager)
	}
	for _, helper := range helpers {
		if err := helper.EnsureIndexes(ctx); err != nil {
			return err
		}
	}
	return nil
}
