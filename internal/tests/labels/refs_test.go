package labels_test

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// References between documents: extref, relation, tree, and what only looks like them.
func refCases() []labelled {
	airports := []string{"BER", "CDG", "FCO", "OSL", "VIE", "OPO", "BRU", "BRN", "RIX", "LYS", "MAD", "LHR", "ZRH", "ATH", "DUB"}
	return []labelled{
		{
			name: "orders", service: "shop", pays: "extref",
			why: "each list of orders joins name and city of the customer, which hardly ever change, as in MongoDB's article",
			colls: []coll{
				{name: "orders", n: 1500, indexes: []string{"status,placed"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(30, i), "customer_id", oid(31, g.IntN(300)), "status", g.of("open", "paid", "sent"),
						"placed", at(i), "total", g.money())
				}},
				{name: "customers", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", oid(31, i), "name", g.name(), "city", g.city(), "street", g.text(20), "mail", g.text(20), "since", at(i),
						"terms", g.text(100), "vat", g.text(12), "phone", g.text(12))
				}},
			},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("orders", d("$match", d("status", s.of("open", "paid", "sent"))),
						d("$sort", d("placed", -1)), d("$limit", 25),
						d("$lookup", d("from", "customers", "localField", "customer_id", "foreignField", "_id", "as", "customer")),
						d("$unwind", "$customer"), d("$project", d("placed", 1, "total", 1, "customer.name", 1, "customer.city", 1)))
				}},
				{3, func(s *session, _ int) {
					s.update("customers", d("_id", oid(31, s.IntN(300))), d("$set", d("city", s.city())))
				}},
			},
		},
		{
			name: "opportunities", service: "crm", pays: "extref",
			why: "the pipeline's board joins company name and industry of every opportunity",
			colls: []coll{
				{name: "opportunities", n: 1200, indexes: []string{"tenant,stage"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "tenant", i%4, "stage", g.of("lead", "offer", "won"), "accountId", g.IntN(250), "value", g.money())
				}},
				{name: "companies", n: 250, doc: func(g gen, i int) bson.D {
					return d("_id", i, "tenant", i%4, "name", g.name(), "industry", g.of("food", "steel", "paper"),
						"address", d("city", g.city(), "zip", i),
						"notes", g.text(200), "size", g.IntN(5000), "web", g.text(15))
				}},
			},
			traffic: []requests{
				{110, func(s *session, i int) {
					s.aggregate("opportunities", d("$match", d("tenant", i%4, "stage", "offer")),
						d("$lookup", d("from", "companies", "localField", "accountId", "foreignField", "_id", "as", "company")),
						d("$project", d("value", 1, "company.name", 1, "company.industry", 1)))
				}},
				{20, func(s *session, i int) {
					s.update("opportunities", d("_id", s.IntN(1200)), d("$set", d("value", s.money())))
				}},
			},
		},
		{
			name: "appointments", service: "health", pays: "extref|relation",
			why: "the day's list asks for each doctor's name with a find of its own",
			colls: []coll{
				{name: "appointments", n: 1200, indexes: []string{"day"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(32, i), "day", at(i/12*24), "patient", g.name(), "doctorId", oid(33, g.IntN(120)), "room", g.IntN(40))
				}},
				{name: "doctors", n: 120, doc: func(g gen, i int) bson.D {
					return d("_id", oid(33, i), "name", g.name(), "title", "Dr.", "phone", g.text(12), "cv", g.text(300), "ward", g.IntN(9))
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					for _, doc := range s.find("appointments", d("day", at(s.IntN(100)*24)), by{sort: d("room", 1)}) {
						s.one("doctors", d("_id", doc["doctorId"]), d("name", 1, "title", 1))
					}
				}},
			},
		},
		{
			name: "bookings", service: "travel", pays: "extref",
			why: "each itinerary joins the names of the airport it leaves from, which never change",
			colls: []coll{
				{name: "bookings", n: 1500, indexes: []string{"traveller"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(34, i), "traveller", g.IntN(200), "leg", d("from", airports[g.IntN(len(airports))],
						"on", at(i)), "price", g.money())
				}},
				{name: "airports", n: 150, doc: func(g gen, i int) bson.D {
					code := fmt.Sprintf("X%02d", i)
					if i < len(airports) {
						code = airports[i]
					}
					return d("_id", code, "name", g.text(20), "city", g.city(), "tz", "Europe/Berlin",
						"runways", g.between(1, 4), "geo", a{g.Float64(), g.Float64()})
				}},
			},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.aggregate("bookings", d("$match", d("traveller", s.IntN(200))),
						d("$lookup", d("from", "airports", "localField", "leg.from", "foreignField", "_id", "as", "airport")),
						d("$set", d("airport", d("$first", "$airport"))), d("$project", d("leg", 1, "price", 1,
							"airport.name", 1, "airport.city", 1)))
				}},
			},
		},
		{
			name: "loans", service: "library", pays: "extref",
			why: "the desk's list of overdue loans joins the reader's name by number",
			colls: []coll{
				{name: "loans", n: 1200, indexes: []string{"returned,due"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "book", fmt.Sprint("B", g.IntN(900)), "reader_no", 10_000+g.IntN(200), "due", at(i),
						"returned", g.IntN(2) == 0)
				}},
				{name: "readers", n: 200, doc: func(g gen, i int) bson.D {
					return d("_id", 10_000+i, "name", g.name(), "street", g.text(20), "city", g.city(), "born", at(i),
						"fees", g.money(), "card", g.text(10))
				}},
			},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.aggregate("loans", d("$match", d("returned", false, "due", d("$lt", at(s.between(200, 1200))))), d("$limit", 30),
						d("$lookup", d("from", "readers", "localField", "reader_no", "foreignField", "_id", "as", "reader")),
						d("$project", d("book", 1, "due", 1, "reader.name", 1)))
				}},
				{20, func(s *session, _ int) { s.update("loans", d("_id", s.IntN(1200)), d("$set", d("returned", true))) }},
			},
		},
		{
			name: "episodes", service: "media", pays: "extref",
			why: "every list of episodes joins the title of the show by a $lookup with a pipeline",
			colls: []coll{
				{name: "episodes", n: 1500, indexes: []string{"aired"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(35, i), "showId", oid(36, g.IntN(150)), "no", i, "aired", at(i), "title", g.text(25))
				}},
				{name: "shows", n: 150, doc: func(g gen, i int) bson.D {
					return d("_id", oid(36, i), "title", g.text(20), "network", g.city(), "plot", g.text(400),
						"cast", list(10, func(int) any { return g.name() }))
				}},
			},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.aggregate("episodes", d("$match", d("aired", d("$gte", at(s.IntN(1400))))), d("$sort", d("aired", 1)), d("$limit", 20),
						d("$lookup", d("from", "shows", "let", d("sid", "$showId"), "pipeline", a{
							d("$match", d("$expr", d("$eq", a{"$_id", "$$sid"}))), d("$project", d("title", 1)),
						}, "as", "show")))
				}},
			},
		},
		{
			name: "basket_lines", service: "shop", harm: "extref",
			why: "the join fetches the stock on hand, which changes more often than it is read",
			colls: []coll{
				{name: "basket_lines", n: 1000, indexes: []string{"basket"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "basket", i/5, "article", g.IntN(200), "qty", g.between(1, 4))
				}},
				{name: "stock", n: 200, doc: func(g gen, i int) bson.D {
					return d("_id", i, "onHand", g.IntN(500), "site", g.city(), "shelf", g.text(6), "min", 10, "max", 500, "unit", "pc")
				}},
			},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.aggregate("basket_lines", d("$match", d("basket", s.IntN(200))),
						d("$lookup", d("from", "stock", "localField", "article", "foreignField", "_id", "as", "stock")),
						d("$project", d("qty", 1, "article", 1, "stock.onHand", 1)))
				}},
				{240, func(s *session, _ int) { s.update("stock", d("_id", s.IntN(200)), d("$set", d("onHand", s.IntN(500)))) }},
			},
		},
		{
			name: "quotes", service: "crm", harm: "extref",
			why: "the join needs all of a long template, which nobody would copy into each quote",
			colls: []coll{
				{name: "quotes", n: 900, indexes: []string{"rep"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(37, i), "rep", g.IntN(30), "templateId", g.IntN(110), "sum", g.money())
				}},
				{name: "templates", n: 110, doc: func(g gen, i int) bson.D {
					doc := d("_id", i)
					for n := range 14 {
						doc = append(doc, bson.E{Key: fmt.Sprint("section", n), Value: g.text(250)})
					}
					return doc
				}},
			},
			traffic: []requests{
				{80, func(s *session, _ int) {
					s.aggregate("quotes", d("$match", d("rep", s.IntN(30))), d("$limit", 1),
						d("$lookup", d("from", "templates", "localField", "templateId", "foreignField", "_id", "as", "template")))
				}},
			},
		},
		{
			name: "trips", service: "travel",
			why: "one read of fifty joins the driver, and all others do without",
			colls: []coll{
				{name: "trips", n: 1000, indexes: []string{"line"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "line", g.IntN(40), "driver", g.IntN(120), "left", at(i), "km", g.IntN(600))
				}},
				{name: "drivers", n: 120, doc: func(g gen, i int) bson.D {
					return d("_id", i, "name", g.name(), "licence", g.text(10), "phone", g.text(10))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) { s.find("trips", d("line", s.IntN(40)), by{}) }},
				{3, func(s *session, _ int) {
					s.aggregate("trips", d("$match", d("line", s.IntN(40))),
						d("$lookup", d("from", "drivers", "localField", "driver", "foreignField", "_id", "as", "driver")),
						d("$project", d("km", 1, "driver.name", 1)))
				}},
			},
		},
		{
			name: "prescriptions", service: "health",
			why: "the drug's name is in the prescription already, as it has to stay what it was",
			colls: []coll{
				{name: "prescriptions", n: 1200, indexes: []string{"patient"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(38, i), "patient", g.IntN(200), "drug", d("id", g.IntN(150), "name", g.text(12),
						"dose", g.IntN(500)), "on", at(i))
				}},
				{name: "drugs", n: 150, doc: func(g gen, i int) bson.D { return d("_id", i, "name", g.text(12), "leaflet", g.text(900)) }},
			},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("prescriptions", d("patient", s.IntN(200)), by{sort: d("on", -1)}) }},
				{15, func(s *session, _ int) { s.one("drugs", d("_id", s.IntN(150)), nil) }},
			},
		},
		{
			name: "posts", service: "media", pays: "relation",
			why: "a page of ten posts sends ten more finds for their comments",
			colls: []coll{
				{name: "posts", n: 500, indexes: []string{"blog,published"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(40, i), "blog", g.IntN(15), "published", at(i), "title", g.text(30), "text", g.text(200))
				}},
				{name: "post_comments", n: 2500, indexes: []string{"post"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(41, i), "post", oid(40, g.IntN(500)), "by", g.name(), "text", g.text(80))
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					for _, doc := range s.find("posts", d("blog", s.IntN(15)), by{sort: d("published", -1), limit: 10}) {
						s.find("post_comments", d("post", doc["_id"]), by{limit: 20})
					}
				}},
			},
		},
		{
			name: "departments", service: "school", pays: "relation",
			why: "the directory reads the departments of a site and then the lecturers of each, one find after the other",
			colls: []coll{
				{name: "departments", n: 120, indexes: []string{"site"}, doc: func(g gen, i int) bson.D {
					return d("_id", fmt.Sprint("dep", i), "site", i%10, "name", g.text(20))
				}},
				{name: "lecturers", n: 900, indexes: []string{"departmentId"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(42, i), "departmentId", fmt.Sprint("dep", g.IntN(120)), "name", g.name(), "mail", g.text(15))
				}},
			},
			traffic: []requests{
				{30, func(s *session, i int) {
					for _, doc := range s.find("departments", d("site", i%10), by{}) {
						s.find("lecturers", d("departmentId", doc["_id"]), by{sort: d("name", 1)})
					}
				}},
			},
		},
		{
			name: "publishers", service: "library", pays: "relation", fine: "outlier|subset|split",
			why: "each new book pushes its ID to a list in the publisher that never ends: the book should name its publisher, says MongoDB's manual",
			colls: []coll{{name: "publishers", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", i, "name", g.name(), "founded", g.between(1800, 2000),
					"books", list(g.between(150, 700), func(int) any { return oid(43, g.IntN(90_000)) }))
			}}},
			traffic: []requests{
				{100, func(s *session, i int) {
					s.update("publishers", d("_id", s.IntN(200)), d("$push", d("books", oid(43, 90_000+i))))
				}},
				{40, func(s *session, _ int) { s.one("publishers", d("_id", s.IntN(200)), nil) }},
			},
		},
		{
			name: "courses", service: "school", pays: "relation",
			why: "students are copied into each course, are asked for without it and are changed in many courses at once",
			colls: []coll{{name: "courses", n: 400, indexes: []string{"students.id"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "title", g.text(25), "students", list(g.between(25, 60), func(int) any {
					id := g.IntN(900)
					return d("id", id, "name", fmt.Sprint("Student ", id), "email", fmt.Sprint("s", id, "@example.edu"),
						"semester", id%9, "city", "Berlin")
				}))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.find("courses", d("students.id", s.IntN(900)), by{fields: d("students.$", 1), limit: 1})
				}},
				{40, func(s *session, _ int) {
					s.update("courses", d("students.id", s.IntN(900)), d("$set", d("students.$.email", s.text(12))))
				}},
				{20, func(s *session, _ int) { s.one("courses", d("_id", s.IntN(400)), d("title", 1)) }},
			},
		},
		{
			name: "order_heads", service: "plant", pays: "relation",
			why: "tables were copied from a relational database: one to eight lines are joined in every read, never read alone, and belong into their order",
			colls: []coll{
				{name: "order_heads", n: 600, indexes: []string{"site"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "site", g.IntN(60), "placed", at(i), "buyer", g.name())
				}},
				{name: "order_lines", n: 2400, indexes: []string{"order_id"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(44, i), "order_id", i/4, "article", g.IntN(900), "qty", g.between(1, 50), "price", g.money())
				}},
			},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("order_heads", d("$match", d("site", s.IntN(60))),
						d("$lookup", d("from", "order_lines", "localField", "_id", "foreignField", "order_id", "as", "lines")))
				}},
			},
		},
		{
			name: "patrons", service: "bank", pays: "relation|extref",
			why: "each patron has one address, which every read joins: embed it, as MongoDB's manual does",
			colls: []coll{
				{name: "patrons", n: 800, indexes: []string{"branch"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(45, i), "branch", g.IntN(80), "name", g.name(), "since", at(i))
				}},
				{name: "addresses", n: 800, indexes: []string{"patron_id"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(46, i), "patron_id", oid(45, i), "street", g.text(20), "city", g.city(),
						"zip", g.between(10000, 99999))
				}},
			},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("patrons", d("$match", d("branch", s.IntN(80))),
						d("$lookup", d("from", "addresses", "localField", "_id", "foreignField", "patron_id",
							"as", "address")), d("$unwind", "$address"))
				}},
			},
		},
		{
			name: "assemblies", service: "plant", pays: "relation|extref",
			why: "an assembly lists its components, and the page sends one find for each instead of one for all",
			colls: []coll{
				{name: "assemblies", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", i, "name", g.text(15),
						"componentIds", list(g.between(5, 9), func(int) any { return oid(47, g.IntN(700)) }))
				}},
				{name: "components", n: 700, doc: func(g gen, i int) bson.D {
					return d("_id", oid(47, i), "name", g.text(15),
						"weight", g.IntN(900))
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					for _, id := range s.one("assemblies", d("_id", s.IntN(300)), nil)["componentIds"].(a) {
						s.one("components", d("_id", id), nil)
					}
				}},
			},
		},
		{
			name: "timetables", service: "school",
			why: "all rooms of a timetable come with one $in already",
			colls: []coll{
				{name: "timetables", n: 200, doc: func(g gen, i int) bson.D {
					return d("_id", i, "week", i%52, "rooms", list(6, func(int) any { return g.IntN(150) }))
				}},
				{name: "rooms", n: 150, doc: func(g gen, i int) bson.D { return d("_id", i, "seats", g.IntN(200), "floor", g.IntN(6)) }},
			},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.find("rooms", d("_id", d("$in", s.one("timetables", d("_id", s.IntN(200)), nil)["rooms"])), by{})
				}},
			},
		},
		{
			name: "channels", service: "media",
			why: "five to ten links are bounded by nature and always shown with their channel: embedded is right",
			colls: []coll{{name: "channels", n: 700, indexes: []string{"handle"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "handle", fmt.Sprint("@c", i),
					"links", list(g.between(5, 10), func(int) any { return d("site", g.text(10), "url", g.text(40)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("channels", d("handle", fmt.Sprint("@c", s.IntN(700))), nil) }},
				{15, func(s *session, _ int) {
					s.update("channels", d("_id", s.IntN(700)), d("$set", d("links.0", d("site", s.text(10), "url", s.text(40)))))
				}},
			},
		},
		{
			name: "authors", service: "library", harm: "relation",
			why: "works are mostly read without their author, so they belong into a collection of their own, as they are",
			colls: []coll{
				{name: "authors", n: 200, doc: func(g gen, i int) bson.D {
					return d("_id", i, "name", g.name(),
						"born", g.between(1850, 2000))
				}},
				{name: "works", n: 1400, indexes: []string{"authorId", "genre,year"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "authorId", i%200, "genre", g.IntN(30), "year", g.between(1900, 2025), "title", g.text(30))
				}},
			},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("works", d("genre", s.IntN(30)), by{sort: d("year", -1), limit: 30}) }},
				{25, func(s *session, _ int) {
					s.aggregate("authors", d("$match", d("_id", s.IntN(200))),
						d("$lookup", d("from", "works", "localField", "_id", "foreignField", "authorId", "as", "works")))
				}},
			},
		},
		{
			name: "patients", service: "health",
			why: "a file is two queries, the patient and all visits: that is no loop",
			colls: []coll{
				{name: "patients", n: 400, indexes: []string{"insurance"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(48, i), "insurance", fmt.Sprint("INS", i), "name", g.name(), "born", at(i))
				}},
				{name: "visits", n: 2000, indexes: []string{"patientId,on"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(49, i), "patientId", oid(48, i%400), "on", at(i), "reason", g.text(40))
				}},
			},
			traffic: []requests{
				{60, func(s *session, _ int) {
					patient := s.one("patients", d("insurance", fmt.Sprint("INS", s.IntN(400))), nil)
					s.find("visits", d("patientId", patient["_id"]), by{sort: d("on", -1)})
				}},
			},
		},
		{
			name: "categories", service: "shop", pays: "tree",
			why: "everything below a category is found by $graphLookup for every page of it",
			colls: []coll{{name: "categories", n: 500, indexes: []string{"parent"}, doc: func(_ gen, i int) bson.D {
				return d("_id", i, "parent", parent(i, 4), "name", fmt.Sprint("Category ", i))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					s.aggregate("categories", d("$match", d("_id", s.IntN(120))), d("$graphLookup", d("from", "categories",
						"startWith", "$_id",
						"connectFromField", "_id", "connectToField", "parent", "as", "below")))
				}},
			},
		},
		{
			name: "staff", service: "school", pays: "tree",
			why: "the line of managers is climbed by $graphLookup for each leave request",
			colls: []coll{{name: "staff", n: 600, indexes: []string{"managerId"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", oid(50, i), "name", g.name(), "role", g.text(10))
				if i > 0 {
					doc = append(doc, bson.E{Key: "managerId", Value: oid(50, (i-1)/5)})
				}
				return doc
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					s.aggregate("staff", d("$match", d("_id", oid(50, s.IntN(600)))), d("$graphLookup", d("from", "staff",
						"startWith", "$managerId",
						"connectFromField", "managerId", "connectToField", "_id", "as", "line", "depthField", "level")))
				}},
			},
		},
		{
			name: "bom", service: "plant", pays: "tree",
			why: "an exploded view needs all parts below a part, to any depth",
			colls: []coll{{name: "bom", n: 900, indexes: []string{"position.parentPart"}, doc: func(g gen, i int) bson.D {
				return d("_id", fmt.Sprint("P", i), "name", g.text(15),
					"position", d("parentPart", fmt.Sprint("P", parent(i, 6)), "qty", g.between(1, 8)))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.aggregate("bom", d("$match", d("_id", fmt.Sprint("P", s.IntN(100)))), d("$graphLookup", d("from", "bom",
						"startWith", "$_id",
						"connectFromField", "_id", "connectToField", "position.parentPart", "as", "parts")))
				}},
				{60, func(s *session, _ int) { s.one("bom", d("_id", fmt.Sprint("P", s.IntN(900))), nil) }},
			},
		},
		{
			name: "folders", service: "media", pays: "tree", fine: "relation|extref",
			why: "the breadcrumb climbs from folder to folder with one find each",
			colls: []coll{{name: "folders", n: 700, indexes: []string{"parentId"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "parentId", parent(i, 3), "name", g.text(12), "owner", g.IntN(20))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					folder := s.one("folders", d("_id", s.between(200, 699)), nil)
					for folder["parentId"] != nil {
						folder = s.one("folders", d("_id", folder["parentId"]), nil)
					}
				}},
			},
		},
		{
			name: "threads", service: "social", pays: "tree", fine: "relation",
			why: "a discussion is read level by level, with a find for the answers to all of the level before",
			colls: []coll{{name: "threads", n: 1500, indexes: []string{"inReplyTo"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(51, i), "inReplyTo", func() any {
					if i < 30 {
						return nil
					}
					return oid(51, (i-30)/3)
				}(), "by", g.name(), "text", g.text(60))
			}}},
			traffic: []requests{
				{40, func(s *session, _ int) {
					level := a{oid(51, s.IntN(30))}
					for len(level) > 0 {
						answers := s.find("threads", d("inReplyTo", d("$in", level)), by{})
						level = nil
						for _, doc := range answers {
							level = append(level, doc["_id"])
						}
					}
				}},
			},
		},
		{
			name: "regions", service: "travel", pays: "tree",
			why: "each search finds the regions around and below by $graphLookup, up to five levels deep",
			colls: []coll{{name: "regions", n: 400, indexes: []string{"up"}, doc: func(g gen, i int) bson.D {
				doc := d("_id", fmt.Sprint("region-", i), "name", g.text(14), "active", g.IntN(10) > 0)
				if i > 0 {
					doc = append(doc, bson.E{Key: "up", Value: fmt.Sprint("region-", (i-1)/7)})
				}
				return doc
			}}},
			traffic: []requests{
				{70, func(s *session, _ int) {
					s.aggregate("regions", d("$match", d("_id", fmt.Sprint("region-", s.IntN(60)))), d("$graphLookup", d("from", "regions",
						"startWith", "$_id", "connectFromField", "_id", "connectToField", "up", "as", "inside", "maxDepth", 5,
						"restrictSearchWithMatch", d("active", true))), d("$project", d("inside._id", 1)))
				}},
			},
		},
		{
			name: "menu", service: "shop",
			why: "a menu opens one level at a time, which an index on the parent answers",
			colls: []coll{{name: "menu", n: 300, indexes: []string{"parent,pos"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "parent", parent(i, 8), "pos", i%8, "label", g.text(12))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("menu", d("parent", s.IntN(37)), by{sort: d("pos", 1)}) }},
			},
		},
		{
			name: "people", service: "social", harm: "tree",
			why: "friends of friends are a net with circles, not a tree",
			colls: []coll{{name: "people", n: 600, doc: func(g gen, i int) bson.D {
				return d("_id", i, "name", g.name(), "friends", list(g.between(2, 8), func(int) any { return g.IntN(600) }))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.aggregate("people", d("$match", d("_id", s.IntN(600))), d("$graphLookup", d("from", "people", "startWith", "$friends",
						"connectFromField", "friends", "connectToField", "_id", "maxDepth", 1, "as", "circle")), d("$project", d("circle.name", 1)))
				}},
			},
		},
		{
			name: "revisions", service: "crm",
			why: "each revision names the one before, and only that one is ever shown beside it",
			colls: []coll{{name: "revisions", n: 800, indexes: []string{"page"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(52, i), "page", i%100, "previous", oid(52, max(i-100, i%100)), "text", g.text(120))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) { s.find("revisions", d("page", s.IntN(100)), by{sort: d("_id", -1), limit: 1}) }},
				{40, func(s *session, _ int) { s.one("revisions", d("_id", oid(52, s.IntN(800))), nil) }},
			},
		},
		{
			name: "flights", service: "travel", harm: "tree",
			why: "routes between airports are a graph: an airport has many ways in",
			colls: []coll{{name: "flights", n: 500, indexes: []string{"from"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "from", airports[g.IntN(len(airports))], "to", airports[g.IntN(len(airports))], "no", fmt.Sprint("XY", i))
			}}},
			traffic: []requests{
				{40, func(s *session, _ int) {
					s.aggregate("flights", d("$match", d("_id", s.IntN(500))), d("$graphLookup", d("from", "flights", "startWith", "$to",
						"connectFromField", "to", "connectToField", "from", "maxDepth", 0, "as", "onward")), d("$project", d("onward.no", 1)))
				}},
			},
		},
	}
}

// parent is the parent of i in a tree in which each node has some children. The root has none.
func parent(i, children int) any {
	if i == 0 {
		return nil
	}
	return (i - 1) / children
}
