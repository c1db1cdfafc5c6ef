package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/tree"
)

type category struct {
	ID   string `bson:"_id" json:"id"`
	Name string `bson:"name" json:"name"`
}

// product is what the service reads of a product. Specs, reviews and buyers are
// written by their patterns, never with the whole document.
type product struct {
	SKU      string `bson:"_id" json:"sku"`
	Name     string `bson:"name" json:"name"`
	Category string `bson:"category" json:"category"`
	Price    int64  `bson:"price" json:"price"` // cents
	Specs    []spec `bson:"specs" json:"specs"`

	Reviews     []review `bson:"reviews" json:"reviews"` // the newest
	ReviewCount int64    `bson:"review_count" json:"reviewCount"`
	Rating      float64  `bson:"rating" json:"rating"` // the mean of all; 0 without reviews
}

type spec struct {
	Key   string `bson:"k" json:"key"`
	Value any    `bson:"v" json:"value"`
}

// listed is a product in a list.
type listed struct {
	SKU      string  `bson:"_id" json:"sku"`
	Name     string  `bson:"name" json:"name"`
	Category string  `bson:"category" json:"category"`
	Price    int64   `bson:"price" json:"price"`
	Rating   float64 `bson:"rating" json:"rating"`
}

type review struct {
	ID     bson.ObjectID `bson:"_id,omitempty" json:"id"`
	Author string        `bson:"author" json:"author"`
	Rating int64         `bson:"rating" json:"rating"`
	Text   string        `bson:"text" json:"text"`
	At     time.Time     `bson:"at" json:"at"`
}

// addCategory puts a category under parent, or makes it a root if that is empty.
func (s *service) addCategory(ctx context.Context, c category, parent string) error {
	position := s.categories.AsRoot()
	if parent != "" {
		position = s.categories.Under(parent)
	}
	_, err := s.categories.Insert(ctx, c, position)
	return err
}

// addProduct stores a product of an existing category, which counts its products.
// The count also makes this conflict with whoever deletes the category.
func (s *service) addProduct(ctx context.Context, p product, specs map[string]any) error {
	var attributes []attribute.Attribute[any]
	for _, key := range slices.Sorted(maps.Keys(specs)) {
		attributes = append(attributes, attribute.Attribute[any]{Key: key, Value: specs[key]})
	}
	elements, err := s.specs.Elements(attributes...)
	if err != nil {
		return err
	}
	return mongopatterns.Transact(ctx, s.orderColl.Database().Client(), func(ctx context.Context) error {
		counted, err := s.categoryColl.UpdateOne(ctx, s.categories.Filter(p.Category),
			bson.D{{Key: "$inc", Value: bson.D{{Key: "products", Value: 1}}}})
		if err != nil {
			return err
		}
		if counted.MatchedCount == 0 {
			return fmt.Errorf("%w: %q", mongopatterns.ErrNotFound, p.Category)
		}
		_, err = s.productColl.InsertOne(ctx, bson.D{
			{Key: "_id", Value: p.SKU}, {Key: "name", Value: p.Name}, {Key: "category", Value: p.Category},
			{Key: "price", Value: p.Price}, {Key: "specs", Value: elements},
		})
		return err
	})
}

// productPage is a product with the way to it from the root.
type productPage struct {
	product
	Breadcrumb []category `json:"breadcrumb"`
}

func (s *service) product(ctx context.Context, sku string) (productPage, error) {
	var page productPage
	err := s.productColl.FindOne(ctx, bson.D{{Key: "_id", Value: sku}},
		options.FindOne().SetProjection(bson.D{{Key: "buyers", Value: 0}})).Decode(&page.product)
	if err != nil {
		return page, err
	}
	crumbs, err := s.categories.Breadcrumb(ctx, page.Category)
	for _, c := range crumbs {
		page.Breadcrumb = append(page.Breadcrumb, category(c))
	}
	return page, err
}

// deleteProduct deletes a product with its reviews and buyers. Two patterns keep
// documents beside it: one of them deletes the product, the other's are deleted
// by its filter. Orders keep their copies.
func (s *service) deleteProduct(ctx context.Context, sku string) error {
	return mongopatterns.Transact(ctx, s.orderColl.Database().Client(), func(ctx context.Context) error {
		// The category of a product never changes, so it can be read first.
		var p product
		err := s.productColl.FindOne(ctx, bson.D{{Key: "_id", Value: sku}},
			options.FindOne().SetProjection(bson.D{{Key: "category", Value: 1}})).Decode(&p)
		if err != nil {
			return err
		}
		if _, err := s.reviews.DeleteParent(ctx, sku); err != nil {
			return err
		}
		if _, err := s.buyerColl.DeleteMany(ctx, s.buyers.OverflowFilter(sku)); err != nil {
			return err
		}
		_, err = s.categoryColl.UpdateOne(ctx, s.categories.Filter(p.Category),
			bson.D{{Key: "$inc", Value: bson.D{{Key: "products", Value: -1}}}})
		return err
	})
}

// within selects the products of a category and of all below it that have these
// specs: "color:red", or of numbers "weight:1..5" (from 1, below 5).
func (s *service) within(ctx context.Context, id string, specs []string) (bson.D, error) {
	node, err := s.categories.Subtree(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	var conditions []attribute.Condition
	for _, text := range specs {
		condition, err := s.condition(text)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, condition)
	}
	// The categories of a shop are few enough for an $in.
	filter := bson.D{{Key: "category", Value: bson.D{{Key: "$in", Value: ids(node, nil)}}}}
	return append(filter, s.specs.Filter(conditions...)...), nil
}

func (s *service) condition(text string) (attribute.Condition, error) {
	key, value, ok := strings.Cut(text, ":")
	if !ok || key == "" {
		return attribute.Condition{}, badRequest("spec: want key:value or key:from..to")
	}
	if low, high, ok := strings.Cut(value, ".."); ok {
		from, err := strconv.ParseFloat(low, 64)
		if err != nil {
			return attribute.Condition{}, badRequest("spec: " + err.Error())
		}
		to, err := strconv.ParseFloat(high, 64)
		if err != nil {
			return attribute.Condition{}, badRequest("spec: " + err.Error())
		}
		return s.numbers.Range(attribute.Named(key), from, to), nil
	}
	if number, err := strconv.ParseFloat(value, 64); err == nil {
		return s.specs.In(attribute.Named(key), []any{value, number}), nil
	}
	return s.specs.Equals(attribute.Named(key), value), nil
}

func ids(node *tree.Node[category], into []string) []string {
	into = append(into, node.Value.ID)
	for _, child := range node.Children {
		into = ids(child, into)
	}
	return into
}

func (s *service) productList(ctx context.Context, id, order string, specs []string, req paging.Request) (*paging.Page[listed], error) {
	pager := s.productPages[order]
	if pager == nil {
		return nil, fmt.Errorf("%w: no order %q", mongopatterns.ErrInvalid, order)
	}
	filter, err := s.within(ctx, id, specs)
	if err != nil {
		return nil, err
	}
	return pager.Page(ctx, filter, req)
}

// facets counts the specs of the products that a list with these specs shows.
func (s *service) facets(ctx context.Context, id string, specs []string) ([]attribute.Facet[any], error) {
	filter, err := s.within(ctx, id, specs)
	if err != nil {
		return nil, err
	}
	return s.specs.Facets(ctx, filter, &attribute.FacetOptions{Top: 10})
}

// addReview is one transaction: the review, and on the product the newest ones,
// their number and the mean rating.
func (s *service) addReview(ctx context.Context, sku string, r review) (review, error) {
	r.ID, r.At = bson.NewObjectID(), time.Now().UTC().Truncate(time.Millisecond)
	_, err := s.reviews.Insert(ctx, sku, r)
	return r, err
}

func (s *service) changeReview(ctx context.Context, sku string, id bson.ObjectID, rating int64, text string) error {
	return s.reviews.Update(ctx, sku, id, bson.D{{Key: "$set", Value: bson.D{
		{Key: "rating", Value: rating}, {Key: "text", Value: text},
	}}})
}

func (s *service) reviewList(ctx context.Context, sku string, req paging.Request) (*paging.Page[review], error) {
	return s.reviewPages.Page(ctx, s.reviews.ItemsFilter(sku), req)
}

// exists tells "no reviews" from "no product".
func (s *service) exists(ctx context.Context, sku string) error {
	err := s.productColl.FindOne(ctx, bson.D{{Key: "_id", Value: sku}},
		options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return fmt.Errorf("no product %q: %w", sku, err)
	}
	return err
}
