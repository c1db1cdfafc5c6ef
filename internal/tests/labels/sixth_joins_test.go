package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Fields of other documents that reads need: extref.
func sixthJoinCases() []labelled {
	return []labelled{
		{
			name: "varreza_plots", service: "cemetery", pays: "extref", fine: "relation",
			why: "each list of plots joins name and phone of the caretaker, which change once in years",
			colls: []coll{
				{"varreza_plots", 900, []string{"field"}, func(g gen, i int) bson.D {
					return d("_id", serial("Q", i), "field", i%30, "caretaker", int32(g.IntN(60)), "row", g.IntN(40))
				}},
				{"caretakers", 60, nil, func(g gen, i int) bson.D {
					return d("_id", int32(i), "name", g.name(), "phone", g.text(9), "born", at(-i*900),
						"contract", g.text(300), "iban", g.text(22))
				}},
			},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.aggregate("varreza_plots", match("field", s.IntN(30)), join("caretakers", "caretaker",
						"_id", "c"), d("$unwind", "$c"),
						project("row", 1, "c.name", 1, "c.phone", 1))
				}},
				{2, func(s *session, i int) { s.update("caretakers", d("_id", int32(i)), d("$set", d("phone", s.text(9)))) }},
			},
		},
		{
			name: "orders_of_parts", service: "elevators", pays: "extref", fine: "relation",
			why: "an order shows for each of its lines the name and maker of the part, joined from a catalogue that hardly changes",
			colls: []coll{
				{"orders_of_parts", 700, nil, func(g gen, i int) bson.D {
					return d("_id", oid(73, i), "for", g.name(), "lines", list(g.between(2, 6), func(int) any {
						return d("part", key("pt", g.IntN(200)), "n", g.between(1, 9))
					}))
				}},
				{"part_catalogue", 200, nil, func(g gen, i int) bson.D {
					return d("_id", key("pt", i), "name", g.text(16), "maker", g.text(8), "sheet", g.text(700),
						"kg", g.IntN(90), "box", g.text(20))
				}},
			},
			traffic: []requests{
				{170, func(s *session, _ int) {
					s.aggregate("orders_of_parts", match("_id", oid(73, s.IntN(700))), d("$unwind", "$lines"),
						join("part_catalogue", "lines.part", "_id", "p"), d("$unwind", "$p"),
						project("for", 1, "lines.n", 1, "p.name", 1, "p.maker", 1))
				}},
				{2, func(s *session, i int) {
					s.update("part_catalogue", d("_id", key("pt", i)), d("$set", d("maker", s.text(8))))
				}},
			},
		},
		{
			name: "banners", service: "adserver", pays: "extref", fine: "relation",
			why: "the board of campaigns joins the advertiser's name and country to each banner, and the advertisers stay as they are",
			colls: []coll{
				{"banners", 1200, []string{"state"}, func(g gen, i int) bson.D {
					return d("_id", int64(i), "state", g.of("on", "off", "paused"), "advertiser", uuid(66, g.IntN(80)),
						"clicks", g.IntN(900))
				}},
				{"advertisers", 80, nil, func(g gen, i int) bson.D {
					return d("_id", uuid(66, i), "name", g.text(14), "country", g.of("HU", "RO"), "vat", g.text(11),
						"mail", g.text(16), "terms", g.text(400))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("banners", match("state", s.of("on", "off", "paused")), d("$limit", 40), join("advertisers",
						"advertiser", "_id", "adv"),
						d("$unwind", d("path", "$adv", "preserveNullAndEmptyArrays", true)), project("clicks", 1,
							"adv.name", 1, "adv.country", 1))
				}},
				{2, func(s *session, i int) {
					s.update("advertisers", d("_id", uuid(66, i)), d("$set", d("mail", s.text(16))))
				}},
			},
		},
		{
			name: "fittings", service: "tailor", pays: "extref", fine: "relation",
			why: "the diary joins name and size of the customer by the customer's number, a natural key, for every day that is opened",
			colls: []coll{
				{"fittings", 1000, []string{"day"}, func(g gen, i int) bson.D {
					return d("_id", oid(74, i), "day", i%60, "customerNo", key("K", g.IntN(150)), "minutes", g.between(10, 90))
				}},
				{"fitting_customers", 150, []string{"no"}, func(g gen, i int) bson.D {
					return d("_id", oid(75, i), "no", key("K", i), "name", g.name(), "size", g.between(34, 58),
						"card", g.text(300), "mail", g.text(15))
				}},
			},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.aggregate("fittings", match("day", s.IntN(60)), join("fitting_customers", "customerNo",
						"no", "c"), d("$unwind", "$c"),
						project("minutes", 1, "c.name", 1, "c.size", 1))
				}},
				{2, func(s *session, i int) { s.update("fitting_customers", d("no", key("K", i)), d("$set", d("size", 44))) }},
			},
		},
		{
			name: "flyvninger", service: "drones", pays: "extref|relation",
			why: "the list of a day's flights reads the name of each pilot by a findOne of its own, and pilots seldom change a name",
			colls: []coll{
				{"flyvninger", 1000, []string{"dag"}, func(g gen, i int) bson.D {
					return d("_id", uuid(67, i), "dag", i%80, "pilot", ulid("P", g.IntN(200)), "meter", g.between(5, 120))
				}},
				{"piloter", 200, nil, func(g gen, i int) bson.D {
					return d("_id", ulid("P", i), "navn", g.name(), "bevis", g.text(60), "født", at(-i*300), "mail", g.text(14))
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					s.dereference("piloter", s.find("flyvninger", d("dag", s.IntN(80)), by{limit: 12}), "pilot", keep("navn"))
				}},
				{2, func(s *session, i int) { s.update("piloter", d("_id", ulid("P", i)), d("$set", d("navn", s.name()))) }},
			},
		},
		{
			name: "reservasjoner", service: "caravan", pays: "extref", fine: "relation",
			why: "every read of arrivals joins name and plate of the guest by a pipeline with let, and both are fixed for a season",
			colls: []coll{
				{"reservasjoner", 1200, []string{"uke"}, func(g gen, i int) bson.D {
					return d("_id", int32(i), "uke", i%50, "gjest", oid(76, g.IntN(300)), "netter", g.between(1, 20))
				}},
				{"gjester", 300, nil, func(g gen, i int) bson.D {
					return d("_id", oid(76, i), "navn", g.name(), "skilt", g.text(7), "adresse", g.text(60),
						"pass", g.text(40), "notat", g.text(200))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("reservasjoner", match("uke", s.IntN(50)), d("$lookup", d("from", "gjester",
						"let", d("g", "$gjest"), "pipeline",
						a{d("$match", d("$expr", d("$eq", a{"$_id", "$$g"}))), d("$project", d("navn", 1, "skilt", 1))},
						"as", "gj")))
				}},
				{2, func(s *session, i int) { s.update("gjester", d("_id", oid(76, i)), d("$set", d("skilt", s.text(7)))) }},
			},
		},
		{
			name: "képek", service: "memes", pays: "extref", fine: "relation",
			why: "the front page joins nick and badge of who sent a picture, by an ID in a subdocument, and nicks are for ever",
			colls: []coll{
				{"képek", 1500, []string{"nap"}, func(g gen, i int) bson.D {
					return d("_id", meteor('q', i), "nap", i%90, "by", d("id", g.IntN(250), "ip", g.text(11)), "cím", g.text(18))
				}},
				{"tagok", 250, nil, func(g gen, i int) bson.D {
					return d("_id", i, "nick", g.text(8), "badge", g.of("új", "régi"), "mail", g.text(15),
						"hash", g.text(60), "bio", g.text(300))
				}},
			},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.aggregate("képek", match("nap", s.IntN(90)), d("$limit", 20), join("tagok", "by.id", "_id", "tag"),
						project("cím", 1, "tag.nick", 1, "tag.badge", 1))
				}},
				{2, func(s *session, i int) { s.update("tagok", d("_id", i), d("$set", d("mail", s.text(15)))) }},
			},
		},
		{
			name: "tours", service: "waste", pays: "extref", fine: "relation",
			why: "dispatch joins plate and driver of the truck to every tour it lists, and a truck is changed once a year",
			colls: []coll{
				{"tours", 1100, []string{"date"}, func(g gen, i int) bson.D {
					return d("_id", uuid(68, i), "date", i%70, "truck", key("TR", g.IntN(45)), "stops", g.between(20, 200))
				}},
				{"trucks", 45, nil, func(g gen, i int) bson.D {
					return d("_id", key("TR", i), "plate", g.text(8), "driver", g.name(), "built", 2015,
						"papers", g.text(600), "kw", 200, "tyres", g.text(30))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("tours", match("date", s.IntN(70)), join("trucks", "truck", "_id", "t"),
						d("$set", d("plate", d("$first", "$t.plate"), "driver", d("$first", "$t.driver"))), d("$unset", "t"))
				}},
				{2, func(s *session, i int) { s.update("trucks", d("_id", key("TR", i)), d("$set", d("tyres", s.text(30)))) }},
			},
		},
		{
			name: "pledge_rows", service: "crowdfunding", pays: "extref", fine: "relation",
			why: "each list of pledges needs title and owner of the project, which the resolver joins and which hardly ever change",
			colls: []coll{
				{"pledge_rows", 1300, []string{"user"}, func(g gen, i int) bson.D {
					return d("_id", oid(77, i), "user", i%120, "project", uuid(69, g.IntN(90)), "cents", g.between(100, 9000))
				}},
				{"projects", 90, nil, func(g gen, i int) bson.D {
					return d("_id", uuid(69, i), "title", g.text(20), "owner", g.name(), "story", g.text(1500),
						"ends", at(i), "goal", 9000)
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("pledge_rows", match("user", s.IntN(120)), d("$sort", d("_id", -1)), join("projects",
						"project", "_id", "project"),
						d("$unwind", "$project"), project("cents", 1, "project.title", 1, "project.owner", 1))
				}},
				{1, func(s *session, _ int) {
					s.update("projects", d("_id", uuid(69, 3)), d("$set", d("title", s.text(20))))
				}},
			},
		},
		{
			name: "sold_breads", service: "bakery", harm: "extref", fine: "relation",
			why: "the till joins the stock of a bread, which changes with each sale and must be right at every moment",
			colls: []coll{
				{"sold_breads", 900, []string{"till"}, func(g gen, i int) bson.D {
					return d("_id", oid(78, i), "till", i%30, "bread", int64(g.IntN(20)), "n", g.between(1, 5))
				}},
				{"bread_stock", 20, nil, func(g gen, i int) bson.D {
					return d("_id", int64(i), "left", g.IntN(300),
						"shelf", g.IntN(9))
				}},
			},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.aggregate("sold_breads", match("till", s.IntN(30)), d("$limit", 5), join("bread_stock", "bread", "_id", "b"),
						project("n", 1, "b.left", 1))
				}},
				{240, func(s *session, _ int) {
					s.update("bread_stock", d("_id", int64(s.IntN(20))), d("$inc", d("left", -1)))
				}},
			},
		},
		{
			name: "swarms", service: "apiary",
			why: "the report that joins the keeper runs twice, while all other reads do not need him, and $lookup is right for a rare join",
			colls: []coll{
				{"swarms", 800, []string{"week"}, func(g gen, i int) bson.D {
					return d("_id", key("sw", i), "week", i%40, "keeper", i%50, "kg", g.money())
				}},
				{"keepers", 50, nil, func(g gen, i int) bson.D { return d("_id", i, "name", g.name(), "mail", g.text(15)) }},
			},
			traffic: []requests{
				{160, func(s *session, _ int) { s.find("swarms", d("week", s.IntN(40)), by{}) }},
				{2, func(s *session, _ int) {
					s.aggregate("swarms", match("week", s.IntN(40)), join("keepers", "keeper", "_id", "k"), project("kg", 1,
						"k.name", 1))
				}},
			},
		},
		{
			name: "invoices_cut", service: "tailor",
			why: "an invoice holds the name and address of its time, which never follow the customer, so no read joins and nothing pays",
			colls: []coll{{"invoices_cut", 900, []string{"month"}, func(g gen, i int) bson.D {
				return d("_id", serial("R", i), "month", i%24, "customer", d("_id", g.IntN(200), "name", g.name(),
					"street", g.text(14)), "sum", g.money())
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.find("invoices_cut", d("month", s.IntN(24)), by{limit: 40}) }},
			},
		},
	}
}
