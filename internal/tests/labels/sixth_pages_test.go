package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Long lists, read in parts: paging.
func sixthPageCases() []labelled {
	return []labelled{
		{
			name: "varrimet", service: "cemetery", pays: "paging",
			why: "archivists leaf through all burials from the newest one on, thousands deep, by a page number",
			colls: []coll{{"varrimet", 6000, []string{"data"}, func(g gen, i int) bson.D {
				return d("_id", serial("B", i), "data", at(i), "emri", g.name(), "vendi", g.city())
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("varrimet", bson.D{}, by{sort: d("data", -1), skip: s.IntN(110) * 50, limit: 50})
				}},
			},
		},
		{
			name: "impressions", service: "adserver", pays: "paging",
			why: "an export walks over all impressions of a customer by pages of 100 with a growing skip",
			colls: []coll{{"impressions", 6000, []string{"customer,at"}, func(g gen, i int) bson.D {
				return d("_id", snow(7, i), "customer", key("c", i%3/2), "at", minute(i), "site", g.text(12), "price", g.IntN(900))
			}}},
			traffic: []requests{
				{60, func(s *session, i int) {
					s.find("impressions", d("customer", key("c", 0)), by{sort: d("at", 1), skip: i % 38 * 100, limit: 100})
				}},
				{60, func(s *session, i int) {
					s.find("impressions", d("customer", key("c", 0)), by{sort: d("at", 1), skip: (i*7 + 3) % 38 * 100, limit: 100})
				}},
			},
		},
		{
			name: "vizite_tehnice", service: "elevators", pays: "paging",
			why: "the grid of a page is Skip and Take of LINQ, and inspectors open its last pages as often as the first ones",
			colls: []coll{{"vizite_tehnice", 6000, []string{"oraș,ziua"}, func(g gen, i int) bson.D {
				return d("_id", oid(67, i), "oraș", g.of("Iași", "Iași", "Cluj"), "ziua", at(i), "lift", g.IntN(900),
					"bun", i%9 != 0)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.linq("vizite_tehnice", d("oraș", "Iași"), d("$sort", d("ziua", -1)), d("$skip", s.IntN(75)*50),
						d("$limit", 50))
				}},
			},
		},
		{
			name: "pledges", service: "crowdfunding", pays: "paging",
			why: "mongoose-paginate counts all pledges and skips to the page, and the accountants go thousands deep",
			colls: []coll{{"pledges", 5500, []string{"createdAt"}, func(g gen, i int) bson.D {
				return d("_id", oid(68, i), "createdAt", at(i), "amount", g.between(1, 500), "user", g.IntN(9000), "__v", 0)
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.count("pledges", bson.D{})
					s.find("pledges", bson.D{}, by{sort: d("createdAt", -1), skip: s.IntN(200) * 25, limit: 25})
				}},
			},
		},
		{
			name: "poze", service: "memes", pays: "paging",
			why: "the endless scroll of a tag asks for page after page by skip, and bots follow it over thousands of pictures",
			colls: []coll{{"poze", 6000, []string{"etichetă,scor"}, func(g gen, i int) bson.D {
				return d("_id", meteor('p', i), "etichetă", g.of("pisici", "pisici", "câini"), "scor", g.IntN(90_000),
					"url", g.text(30))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("poze", d("etichetă", "pisici"), by{sort: d("scor", -1, "_id", -1), skip: s.IntN(60) * 60, limit: 60})
				}},
			},
		},
		{
			name: "svozy", service: "waste", pays: "paging",
			why: "the table of collections shows a page and its total out of one $facet, which walks over all before the page",
			colls: []coll{{"svozy", 6000, []string{"firma,kdy"}, func(g gen, i int) bson.D {
				return d("_id", uuid(63, i), "firma", i%5/4, "kdy", minute(i*3), "kg", g.between(20, 900), "auto", g.text(8))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) { s.facets("svozy", d("firma", 0), d("kdy", -1), s.IntN(90)*50, 50) }},
			},
		},
		{
			name: "sešuvanja", service: "tailor", pays: "paging",
			why: "PyMongo reads the finished orders of a shop by skip and limit, and the book of a year is read to its end",
			colls: []coll{{"sešuvanja", 6000, []string{"trgovina,konec"}, func(g gen, i int) bson.D {
				return d("_id", int64(i), "trgovina", g.of("A", "A", "A", "B"), "konec", at(i), "kos", g.text(15),
					"ure", g.between(1, 30))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("sešuvanja", d("trgovina", "A"), by{sort: d("konec", 1), skip: s.IntN(85) * 50, limit: 50,
						fields: keep("kos", "konec")})
				}},
			},
		},
		{
			name: "logi_lotów", service: "drones", pays: "paging",
			why: "the book of flights is sorted by two fields, has 6,000 entries and is read at any page number",
			colls: []coll{{"logi_lotów", 6000, []string{"dzień,pilot"}, func(g gen, i int) bson.D {
				return d("_id", uuid(64, i), "dzień", at(i/20*24), "pilot", g.name(), "min", g.between(2, 45))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("logi_lotów", bson.D{}, by{sort: d("dzień", -1, "pilot", 1), skip: s.IntN(140) * 40, limit: 40})
				}},
			},
		},
		{
			name: "winkels", service: "bakery",
			why: "there are 200 shops, so the deepest page skips some dozens, for which skip and limit are enough",
			colls: []coll{{"winkels", 200, []string{"naam"}, func(g gen, i int) bson.D {
				return d("_id", oid(69, i), "naam", g.text(14), "stad", g.city())
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("winkels", bson.D{}, by{sort: d("naam", 1), skip: s.IntN(8) * 25, limit: 25})
				}},
			},
		},
		{
			name: "flash_sheets", service: "tattoo",
			why: "the list has thousands of sheets, but nobody goes beyond its third page",
			colls: []coll{{"flash_sheets", 5000, []string{"added"}, func(g gen, i int) bson.D {
				return d("_id", meteor('f', i), "added", at(i), "title", g.text(14))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("flash_sheets", bson.D{}, by{sort: d("added", -1), skip: s.IntN(3) * 20, limit: 20})
				}},
			},
		},
		{
			name: "campsites_near", service: "caravan",
			why: "a job reads everything at once with a cursor in batches, which no pager makes cheaper",
			colls: []coll{{"campsites_near", 5000, []string{"region"}, func(g gen, i int) bson.D {
				return d("_id", int32(i), "region", int32(i%40), "name", g.text(14), "stars", g.between(1, 5))
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) { s.stream("campsites_near", d("region", int32(s.IntN(40))), d("_id", 1), 50) }},
			},
		},
		{
			name: "sign_ups", service: "petitions",
			why: "the next page begins after the last _id of the page before, so it is keyset pagination by hand, at a cost that stays",
			colls: []coll{{"sign_ups", 6000, nil, func(g gen, i int) bson.D {
				return d("_id", snow(8, i), "mail", g.text(14), "ok", i%7 != 0)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("sign_ups", d("_id", d("$gt", snow(8, s.IntN(5800)))), by{sort: d("_id", 1), limit: 50})
				}},
			},
		},
		{
			name: "zufall", service: "memes", harm: "paging",
			why: "the button for a random picture skips a random number and takes one, which is no page that follows another",
			colls: []coll{{"zufall", 400, nil, func(g gen, i int) bson.D {
				return d("_id", oid(70, i), "bild", g.text(20), "gut", i%2 == 0)
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("zufall", d("gut", true), by{skip: s.IntN(200), limit: 1}) }},
			},
		},
	}
}
