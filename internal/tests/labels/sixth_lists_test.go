package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Lists in documents: outlier, subset.
func sixthListCases() []labelled {
	return []labelled{
		{
			name: "varre", service: "cemetery", pays: "outlier", fine: "relation",
			why: "a grave has a few candles, four of singers have 4,500, and the page of a grave shows each candle with its name",
			colls: []coll{{"varre", 1000, nil, func(g gen, i int) bson.D {
				return d("_id", serial("V", i), "emri", g.name(), "rreshti", g.between(1, 80), "qirinj",
					list(rare(i, 250, 4500, g.near(25)), func(j int) any { return d("nga", g.name(), "dita", at(j)) }))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("varre", d("_id", serial("V", s.IntN(1000))), nil) }},
				{20, func(s *session, i int) {
					candle := d("nga", s.name(), "dita", at(9000+i))
					s.update("varre", d("_id", serial("V", s.IntN(1000))), d("$push", d("qirinj", candle)))
				}},
			},
		},
		{
			name: "misiones", service: "drones", pays: "outlier", fine: "relation",
			why: "a flight has up to 40 waypoints, five surveys have 4,000, and the aircraft loads a flight with all of them",
			colls: []coll{{"misiones", 1000, nil, func(g gen, i int) bson.D {
				return d("_id", uuid(60, i), "piloto", g.name(), "estado", g.of("lista", "volada"), "puntos",
					list(rare(i, 200, 4000, g.between(3, 40)), func(int) any {
						return d("x", g.money(), "y", g.money(),
							"z", g.IntN(120))
					}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.first("misiones", d("_id", uuid(60, s.IntN(1000)))) }},
				{25, func(s *session, _ int) {
					point := d("x", s.money(), "y", s.money(), "z", s.IntN(120))
					s.update("misiones", d("_id", uuid(60, s.IntN(1000))), d("$push", d("puntos", point)))
				}},
			},
		},
		{
			name: "albumok", service: "memes", pays: "outlier", fine: "relation",
			why: "an album has a dozen pictures, four of bots have 5,000, and the viewer loads an album with the keys of all",
			colls: []coll{{"albumok", 1000, []string{"rövid"}, func(g gen, i int) bson.D {
				return d("_id", oid(60, i), "rövid", key("al", i), "gazda", g.IntN(4000), "képek",
					list(rare(i, 250, 5000, g.near(24)), func(int) any { return meteor('k', g.IntN(200_000)) }))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("albumok", d("rövid", key("al", s.IntN(1000))), nil) }},
				{25, func(s *session, _ int) {
					s.update("albumok", d("rövid", key("al", s.IntN(1000))), d("$addToSet",
						d("képek", meteor('k', s.IntN(200_000)))))
				}},
			},
		},
		{
			name: "firmat", service: "petitions", pays: "outlier", fine: "relation",
			why: "a petition has up to 60 signatures, five have 4,000, and the letter to the office is printed with all names",
			colls: []coll{{"firmat", 900, nil, func(g gen, i int) bson.D {
				return d("_id", int64(i+100), "titulli", g.text(30), "marrësi", g.city(), "nënshkrimet",
					list(rare(i, 180, 4000, g.near(60)), func(int) any { return d("n", g.name(), "q", g.city()) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("firmat", d("_id", int64(100+s.IntN(900))), by{limit: 1}) }},
				{30, func(s *session, _ int) {
					s.findAndUpdate("firmat", d("_id", int64(100+s.IntN(900))), d("$push", d("nënshkrimet", d("n", s.name(),
						"q", s.city()))))
				}},
			},
		},
		{
			name: "donationsByCampaign", service: "crowdfunding", pays: "outlier", fine: "relation|subset",
			why: "a campaign has a few dozen backers, four have 5,000, and the mailing after the end loads a campaign with all of them",
			colls: []coll{{"donationsByCampaign", 1000, nil, func(g gen, i int) bson.D {
				return d("_id", ulid("C", i), "goal", g.between(1, 90)*100, "backers",
					list(rare(i, 250, 5000, g.near(50)), func(int) any {
						return d("u", g.IntN(90_000),
							"sum", g.between(1, 300))
					}), "__v", 3)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("donationsByCampaign", d("_id", ulid("C", s.IntN(1000))), nil) }},
				{30, func(s *session, _ int) {
					s.update("donationsByCampaign", d("_id", ulid("C", s.IntN(1000))),
						d("$push", d("backers", d("$each", a{d("u", s.IntN(90_000), "sum", 20)})), "$inc", d("__v", 1)))
				}},
			},
		},
		{
			name: "konteineri", service: "waste", pays: "outlier", fine: "relation",
			why: "a container has a dozen households, five of towers have 3,500, and the driver's sheet shows a container with all",
			colls: []coll{{"konteineri", 1000, nil, func(g gen, i int) bson.D {
				return d("_id", int32(i), "iela", g.text(14), "litri", g.of("120", "240", "1100"), "mājas",
					list(rare(i, 200, 3500, g.between(1, 20)), func(j int) any { return d("dz", j, "kas", g.name()) }))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("konteineri", d("_id", int32(s.IntN(1000))), nil) }},
				{20, func(s *session, i int) {
					s.update("konteineri", d("_id", int32(s.IntN(1000))), d("$push", d("mājas", d("dz", 900+i, "kas", s.name()))))
				}},
			},
		},
		{
			name: "kleuren", service: "tattoo",
			why: "a palette has at most 24 inks by the shape of the box, each is pushed with a $slice, so no list is ever long",
			colls: []coll{{"kleuren", 600, nil, func(g gen, i int) bson.D {
				return d("_id", oid(61, i), "naam", g.text(12),
					"inkten", list(g.between(4, 24), func(int) any { return g.text(8) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("kleuren", d("_id", oid(61, s.IntN(600))), nil) }},
				{20, func(s *session, _ int) {
					s.update("kleuren", d("_id", oid(61, s.IntN(600))),
						d("$push", d("inkten", d("$each", a{s.text(8)}, "$slice", -24))))
				}},
			},
		},
		{
			name: "hives", service: "apiary", harm: "outlier", fine: "relation|split",
			why: "every hive has about 300 frames in its life and no few hold most of them, so outlier would move parts of each",
			colls: []coll{{"hives", 250, nil, func(g gen, i int) bson.D {
				return d("_id", key("H", i), "queen", g.of("2024", "2025"), "frames",
					list(g.between(280, 320), func(j int) any { return d("no", j, "brood", g.IntN(100)) }))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) { s.one("hives", d("_id", key("H", s.IntN(250))), nil) }},
				{20, func(s *session, _ int) {
					s.save("hives", d("_id", key("H", s.IntN(250)), "queen", "2025", "frames",
						list(300, func(j int) any { return d("no", j, "brood", s.IntN(100)) })))
				}},
			},
		},
		{
			name: "queue_of_cuts", service: "tailor",
			why: "the cutter pulls each order out of the list of the table when it is done, so the list stays near ten",
			colls: []coll{{"queue_of_cuts", 40, nil, func(g gen, i int) bson.D {
				return d("_id", i, "table", key("T", i), "waiting", list(g.between(4, 14), func(int) any { return g.IntN(9000) }))
			}}},
			traffic: []requests{
				{60, func(s *session, i int) {
					s.update("queue_of_cuts", d("_id", s.IntN(40)), d("$push", d("waiting", 10_000+i)))
				}},
				{60, func(s *session, i int) {
					s.update("queue_of_cuts", d("_id", s.IntN(40)), d("$pull", d("waiting", 10_000+i)))
				}},
				{60, func(s *session, _ int) { s.one("queue_of_cuts", d("_id", s.IntN(40)), nil) }},
			},
		},
		{
			name: "pedidos_pão", service: "bakery",
			why: "an order has a few lines that are inserted with it and never pushed later, as it is with the invoice",
			colls: []coll{{"pedidos_pão", 900, nil, func(g gen, i int) bson.D {
				return d("_id", snow(5, i), "cliente", g.name(), "linhas",
					list(g.between(1, 6), func(int) any { return d("pão", g.text(9), "un", g.between(1, 40)) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("pedidos_pão", d("_id", snow(5, s.IntN(900))), nil) }},
				{20, func(s *session, i int) {
					s.insert("pedidos_pão", d("_id", snow(6, i), "cliente", s.name(), "linhas", a{d("pão", "broa", "un", 2)}))
				}},
			},
		},
		{
			name: "plads", service: "caravan", pays: "subset", fine: "relation",
			why: "a site shows its three newest of some hundred reviews by $slice, for thirty views that a review is written",
			colls: []coll{{"plads", 250, nil, func(g gen, i int) bson.D {
				return d("_id", int32(i+1), "navn", g.text(14), "by", g.city(), "anmeldelser",
					list(g.between(120, 260), func(j int) any {
						return d("hvem", g.name(), "stj", g.between(1, 5),
							"ord", g.text(70), "nr", j)
					}))
			}}},
			traffic: []requests{
				{180, func(s *session, _ int) {
					s.one("plads", d("_id", int32(s.between(1, 250))), d("anmeldelser", d("$slice", -3)))
				}},
				{6, func(s *session, i int) {
					review := d("hvem", s.name(), "stj", 4, "ord", s.text(70), "nr", 900+i)
					s.update("plads", d("_id", int32(s.between(1, 250))), d("$push", d("anmeldelser", review)))
				}},
			},
		},
		{
			name: "ascensori", service: "elevators", pays: "subset", fine: "relation|bucket|outlier",
			why: "the sign of a lift shows its five newest faults of some hundred, and the list grows at its front",
			colls: []coll{{"ascensori", 240, nil, func(g gen, i int) bson.D {
				return d("_id", oid(62, i), "via", g.text(15), "piani", g.between(3, 30), "guasti",
					list(g.between(150, 300), func(j int) any {
						return d("il", at(4000-j), "codice", g.IntN(90),
							"nota", g.text(60))
					}))
			}}},
			traffic: []requests{
				{180, func(s *session, _ int) {
					s.linq("ascensori", d("_id", oid(62, s.IntN(240))), d("$limit", 1),
						project("via", 1, "piani", 1, "guasti", d("$slice", a{"$guasti", 5})))
				}},
				{6, func(s *session, i int) {
					fault := d("il", at(4001+i), "codice", 7, "nota", s.text(60))
					s.update("ascensori", d("_id", oid(62, s.IntN(240))),
						d("$push", d("guasti", d("$each", a{fault}, "$position", 0))))
				}},
			},
		},
		{
			name: "updates_of", service: "crowdfunding", pays: "subset", fine: "relation|outlier",
			why: "a project shows its two newest of a hundred long updates, and all of them are only asked for by a link",
			colls: []coll{{"updates_of", 200, []string{"slug"}, func(g gen, i int) bson.D {
				return d("_id", uuid(61, i), "slug", key("pr", i), "updates",
					list(g.between(60, 140), func(j int) any { return d("at", at(j*9), "by", g.name(), "text", g.text(180)) }))
			}}},
			traffic: []requests{
				{170, func(s *session, _ int) {
					s.one("updates_of", d("slug", key("pr", s.IntN(200))), d("slug", 1, "updates", d("$slice", -2)))
				}},
				{5, func(s *session, i int) {
					update := d("at", at(4000+i), "by", s.name(), "text", s.text(180))
					s.update("updates_of", d("slug", key("pr", s.IntN(200))), d("$push", d("updates", update)))
				}},
			},
		},
		{
			name: "artistak", service: "tattoo", pays: "subset", fine: "relation|outlier",
			why: "the list of artists shows the four newest works of each, out of some hundred in a subdocument",
			colls: []coll{{"artistak", 220, []string{"hiria"}, func(g gen, i int) bson.D {
				return d("_id", key("ar", i), "hiria", g.city(), "galeria", d("azala", g.text(10), "lanak",
					list(g.between(90, 220), func(j int) any {
						return d("eg", at(j), "irudi", g.text(40),
							"gorputz", g.text(12))
					})))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("artistak", d("hiria", s.city()), by{fields: d("galeria.lanak", d("$slice", -4)), limit: 10})
				}},
				{4, func(s *session, i int) {
					work := d("eg", at(3000+i), "irudi", s.text(40), "gorputz", "beso")
					s.update("artistak", d("_id", key("ar", s.IntN(220))), d("$push", d("galeria.lanak", work)))
				}},
			},
		},
		{
			name: "mallit", service: "tailor", pays: "subset", fine: "relation|outlier",
			why: "a pattern shows the ten newest of some hundred remarks, and thirty people look at it until a remark is added",
			colls: []coll{{"mallit", 200, nil, func(g gen, i int) bson.D {
				return d("_id", oid(63, i), "nimi", g.text(10), "kangas", g.of("villa", "silkki"), "huomiot",
					list(g.between(150, 320), func(j int) any { return d("t", at(j), "kuka", g.name(), "mitä", g.text(60)) }))
			}}},
			traffic: []requests{
				{190, func(s *session, _ int) {
					s.one("mallit", d("_id", oid(63, s.IntN(200))), d("huomiot", d("$slice", -10)))
				}},
				{6, func(s *session, i int) {
					s.update("mallit", d("_id", oid(63, s.IntN(200))),
						d("$push", d("huomiot", d("t", at(4000+i), "kuka", s.name(), "mitä", s.text(60)))))
				}},
			},
		},
		{
			name: "kommentit", service: "memes", pays: "subset", fine: "relation|outlier",
			why: "below a picture stand its two newest comments of two hundred, and people look at pictures far more than they write",
			colls: []coll{{"kommentit", 240, nil, func(g gen, i int) bson.D {
				return d("_id", meteor('m', i), "kuva", g.text(20), "sanat",
					list(g.between(120, 280), func(j int) any { return d("k", g.IntN(9000), "s", g.text(70), "a", at(j)) }))
			}}},
			traffic: []requests{
				{200, func(s *session, _ int) {
					s.one("kommentit", d("_id", meteor('m', s.IntN(240))), d("kuva", 1, "sanat", d("$slice", -2)))
				}},
				{6, func(s *session, i int) {
					s.update("kommentit", d("_id", meteor('m', s.IntN(240))),
						d("$push", d("sanat", d("k", i, "s", s.text(70), "a", at(5000+i)))))
				}},
			},
		},
		{
			name: "debate", service: "petitions", harm: "subset", fine: "relation|bucket|outlier",
			why: "arguments are written as often as a debate is read, so each would be a transaction of two writes for nothing",
			colls: []coll{{"debate", 120, nil, func(g gen, i int) bson.D {
				return d("_id", i, "tema", g.text(20), "argumentos",
					list(g.between(80, 160), func(j int) any { return d("n", g.name(), "t", g.text(70), "h", at(j)) }))
			}}},
			traffic: []requests{
				{70, func(s *session, _ int) { s.one("debate", d("_id", s.IntN(120)), d("argumentos", d("$slice", -5))) }},
				{90, func(s *session, i int) {
					s.update("debate", d("_id", s.IntN(120)),
						d("$push", d("argumentos", d("n", s.name(), "t", s.text(70), "h", at(4000+i)))))
				}},
			},
		},
		{
			name: "menus", service: "bakery",
			why: "a menu has a dozen small dishes, so keeping the three that the sign shows apart would save some hundred bytes",
			colls: []coll{{"menus", 300, nil, func(g gen, i int) bson.D {
				return d("_id", oid(64, i), "jour", at(i*24),
					"plats", list(g.between(8, 14), func(int) any { return d("nom", g.text(14), "prix", 5) }))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("menus", d("_id", oid(64, s.IntN(300))), d("plats", d("$slice", 3))) }},
				{5, func(s *session, i int) {
					s.insert("menus", d("_id", oid(64, 9000+i), "jour", at(i*24+9000), "plats", a{d("nom", s.text(14), "prix", 6)}))
				}},
			},
		},
		{
			name: "ratings_by_vote", service: "drones", harm: "subset", fine: "relation|outlier|split",
			why: "photos are ranked by votes that change in place all the time, and the manual says an indexed query is then cheaper",
			colls: []coll{{"ratings_by_vote", 120, nil, func(g gen, i int) bson.D {
				return d("_id", i, "contest", g.text(10), "photos", list(g.between(60, 120), func(j int) any {
					return d("id", j, "votes", g.IntN(900), "by", g.name(), "note", g.text(40))
				}))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.update("ratings_by_vote", d("_id", s.IntN(120), "photos.id", s.IntN(60)), d("$inc", d("photos.$.votes", 1)))
				}},
				{50, func(s *session, _ int) { s.one("ratings_by_vote", d("_id", s.IntN(120)), nil) }},
			},
		},
	}
}
