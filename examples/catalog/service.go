package main

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/paging"
	"github.com/mongopatterns/mongopatterns/tree"
)

// category is a node of the tree. What makes it a tree, parent_category and
// ancestor_categories, is the tree package's business and not repeated here.
type category struct {
	ID   string `bson:"_id" json:"id"`
	Name string `bson:"name" json:"name"`
}

type product struct {
	SKU      string `bson:"_id" json:"sku"`
	Name     string `bson:"name" json:"name"`
	Category string `bson:"category" json:"category"`
	Price    int64  `bson:"price" json:"price"` // cents
}

// service is the catalog on a database.
type service struct {
	categoryColl, productColl *mongo.Collection
	categories                *tree.Tree[string, category]
	products                  map[string]*paging.Pager[product] // by the name of their order
}

var errNotEmpty = errors.New("the category has products")

func newService(db *mongo.Database, tokenKeys [][]byte) (*service, error) {
	s := &service{
		categoryColl: db.Collection("categories"),
		productColl:  db.Collection("products"),
		products:     map[string]*paging.Pager[product]{},
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
	for name, order := range map[string]bson.D{
		"name":   {{Key: "name", Value: 1}},
		"price":  {{Key: "price", Value: 1}},
		"-price": {{Key: "price", Value: -1}},
	} {
		s.products[name], err = paging.New[product](s.productColl, order, &paging.Options{
			Equality:    []string{"category"},
			SigningKeys: tokenKeys,
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *service) ensureIndexes(ctx context.Context) error {
	if err := s.categories.EnsureIndexes(ctx); err != nil {
		return err
	}
	for _, pager := range s.products {
		if err := pager.EnsureIndexes(ctx); err != nil {
			return err
		}
	}
	return nil
}

// addCategory puts a category under parent, or makes it a root if that is empty.
func (s *service) addCategory(ctx context.Context, c category, parent string) error {
	_, err := s.categories.Insert(ctx, c, s.under(parent))
	return err
}

func (s *service) moveCategory(ctx context.Context, id, parent string) error {
	return s.categories.Move(ctx, id, s.under(parent))
}

func (s *service) under(parent string) tree.Position[string] {
	if parent == "" {
		return s.categories.AsRoot()
	}
	return s.categories.Under(parent)
}

// categoryPage is a category with what is around it.
type categoryPage struct {
	category
	Breadcrumb []crumb    `json:"breadcrumb"` // root first, the category last
	Children   []category `json:"children"`
}

type crumb struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (s *service) category(ctx context.Context, id string) (categoryPage, error) {
	crumbs, err := s.categories.Breadcrumb(ctx, id)
	if err != nil {
		return categoryPage{}, err
	}
	page := categoryPage{Children: []category{}}
	for _, c := range crumbs {
		page.Breadcrumb = append(page.Breadcrumb, crumb(c))
	}
	page.category = category(page.Breadcrumb[len(page.Breadcrumb)-1])
	for child, err := range s.categories.Children(ctx, id) {
		if err != nil {
			return categoryPage{}, err
		}
		page.Children = append(page.Children, child)
	}
	return page, nil
}

// branch is a category with all below it.
type branch struct {
	category
	Children []branch `json:"children"`
}

func (s *service) branch(ctx context.Context, id string) (branch, error) {
	node, err := s.categories.Subtree(ctx, id, 0)
	if err != nil {
		return branch{}, err
	}
	return nested(node), nil
}

func nested(node *tree.Node[category]) branch {
	out := branch{category: node.Value, Children: []branch{}}
	for _, child := range node.Children {
		out.Children = append(out.Children, nested(child))
	}
	return out
}

// deleteCategory removes a category without products; those below it move up.
// The write to the category makes a product added meanwhile conflict with it.
func (s *service) deleteCategory(ctx context.Context, id string) error {
	return mongopatterns.Transact(ctx, s.productColl.Database().Client(), func(ctx context.Context) error {
		if _, err := s.categories.Delete(ctx, id, mongopatterns.Promote); err != nil {
			return err
		}
		err := s.productColl.FindOne(ctx, bson.D{{Key: "category", Value: id}}).Err()
		switch {
		case err == nil:
			return fmt.Errorf("%w: %s", errNotEmpty, id)
		case errors.Is(err, mongo.ErrNoDocuments):
			return nil
		}
		return err
	})
}

// addProduct stores a product of an existing category. It counts the product on
// its category, which is also what makes it conflict with a deletion.
func (s *service) addProduct(ctx context.Context, p product) error {
	return mongopatterns.Transact(ctx, s.productColl.Database().Client(), func(ctx context.Context) error {
		counted, err := s.categoryColl.UpdateOne(ctx, s.categories.Filter(p.Category),
			bson.D{{Key: "$inc", Value: bson.D{{Key: "products", Value: 1}}}})
		if err != nil {
			return err
		}
		if counted.MatchedCount == 0 {
			return fmt.Errorf("%w: %q", mongopatterns.ErrNotFound, p.Category)
		}
		_, err = s.productColl.InsertOne(ctx, p)
		return err
	})
}

// productPage lists the products of a category and of all below it.
func (s *service) productPage(ctx context.Context, id, order string, req paging.Request) (*paging.Page[product], error) {
	pager := s.products[order]
	if pager == nil {
		return nil, fmt.Errorf("%w: no order %q", mongopatterns.ErrInvalid, order)
	}
	node, err := s.categories.Subtree(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	// The categories of a shop are few enough for an $in. Each is an equality on
	// the first field of the index, so the server merges their sorted ranges.
	return pager.Page(ctx, bson.D{{Key: "category", Value: bson.D{{Key: "$in", Value: ids(node, nil)}}}}, req)
}

func ids(node *tree.Node[category], into []string) []string {
	into = append(into, node.Value.ID)
	for _, child := range node.Children {
		into = ids(child, into)
	}
	return into
}
