package labels_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Documents that refer to others: extref, relation.
func fourthRefCases() []labelled {
	return []labelled{
		{
			name: "faturas", service: "hotel", pays: "extref", fine: "relation",
			why: "each list of invoices joins name and tax number of the guest, which hardly ever change",
			colls: []coll{
				{name: "faturas", n: 2000, indexes: []string{"mês"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(40, i), "mês", i%40, "hóspede", oid(41, g.IntN(700)), "total", g.money())
				}},
				{name: "hóspedes", n: 700, doc: func(g gen, i int) bson.D {
					return d("_id", oid(41, i), "nome", g.name(), "nif", key("PT", i), "email", g.text(18), "notas", g.text(120),
						"idioma", g.of("pt", "en"), "quarto", g.IntN(400))
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.aggregate("faturas", match("mês", s.IntN(40)), join("hóspedes", "hóspede", "_id", "h"), d("$unwind", "$h"),
						d("$project", d("total", 1, "h.nome", 1, "h.nif", 1)))
				}},
				{2, func(s *session, _ int) {
					s.update("hóspedes", d("_id", oid(41, s.IntN(700))), d("$set", d("nome", s.name())))
				}},
			},
		},
		{
			name: "receptek", service: "pharmacy", pays: "extref", fine: "relation",
			why: "the counter joins name and stamp number of the doctor to each prescription, and doctors hardly change",
			colls: []coll{
				{name: "receptek", n: 2500, indexes: []string{"beteg"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(42, i), "beteg", i%250, "orvos", oid(43, g.IntN(120)), "szer", g.text(16), "kelt", at(i))
				}},
				{name: "orvosok", n: 120, doc: func(g gen, i int) bson.D {
					return d("_id", oid(43, i), "név", g.name(), "pecsét", i+50_000, "rendelő", g.city(), "tel", g.text(10),
						"szak", g.text(12))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("receptek", match("beteg", s.IntN(250)), d("$lookup", d("from", "orvosok", "localField", "orvos",
						"foreignField", "_id", "pipeline", a{d("$project", d("név", 1, "pecsét", 1))}, "as", "orvos")))
				}},
			},
		},
		{
			name: "izinler", service: "payroll", pays: "extref", fine: "relation",
			why: "each calendar of a department loads name and title of the employees after the leaves, by the mapper's second query",
			colls: []coll{
				{name: "izinler", n: 2000, indexes: []string{"bölüm"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(44, i), "bölüm", i%50, "personel_id", oid(45, g.IntN(900)), "gün", g.between(1, 14),
						"başlangıç", at(i))
				}},
				{name: "personeller", n: 900, doc: func(g gen, i int) bson.D {
					return d("_id", oid(45, i), "ad", g.name(), "unvan", g.of("uzman", "şef"), "maaş", g.between(20, 90)*1000,
						"adres", g.text(60))
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					leaves := s.find("izinler", d("bölüm", s.IntN(50)), by{sort: d("başlangıç", 1)})
					s.populate("personeller", leaves, "personel_id", keep("ad", "unvan"))
				}},
				{2, func(s *session, _ int) {
					s.update("personeller", d("_id", oid(45, s.IntN(900))), d("$set", d("unvan",
						"müdür")))
				}},
			},
		},
		{
			name: "várky", service: "brewery", pays: "extref|relation",
			why: "for each brew of a list the mapper loads the name of its kind by a findOne of its own",
			colls: []coll{
				{name: "várky", n: 1500, indexes: []string{"tyden"}, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "tyden", i%150, "druh", int32(g.IntN(200)), "hl", g.between(10, 60))
				}},
				{name: "druhy", n: 200, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "nazev", g.text(14), "slad", g.text(20), "chmel", g.text(20),
						"ibu", g.between(10, 90), "popis", g.text(200))
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					s.dereference("druhy", s.find("várky", d("tyden", s.IntN(150)), by{}), "druh", keep("nazev"))
				}},
			},
		},
		{
			name: "сеансы", service: "satellite", pays: "extref", fine: "relation",
			why: "each plan of passes joins name and place of the ground station by a pipeline with let, and stations do not move",
			colls: []coll{
				{name: "сеансы", n: 2400, indexes: []string{"аппарат"}, doc: func(g gen, i int) bson.D {
					return d("_id", snow(10, i), "аппарат", i%80, "станция", g.of("KRU", "SVA", "ALA", "MAD", "PER"),
						"начало", minute(i*10))
				}},
				{name: "станции", n: 5, doc: func(g gen, i int) bson.D {
					return d("_id", []string{"KRU", "SVA", "ALA", "MAD", "PER"}[i], "имя", g.city(), "широта", g.between(-70, 70),
						"антенны", g.between(1, 9), "телефон", g.text(12), "график", g.text(90))
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					only := a{match("$expr", d("$eq", a{"$_id", "$$s"})), d("$project", d("имя", 1, "широта", 1))}
					s.aggregate("сеансы", match("аппарат", s.IntN(80)), d("$sort", d("начало", 1)),
						d("$lookup", d("from", "станции", "let", d("s", "$станция"), "pipeline", only, "as", "станция")))
				}},
			},
		},
		{
			name: "bestillinger", service: "ski", pays: "extref", fine: "relation",
			why: "each day of a rental shows the name and shoe size of the customer from a join",
			colls: []coll{
				{name: "bestillinger", n: 2000, indexes: []string{"dag"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(40, i), "dag", i%100, "kunde", int64(g.IntN(600)), "par", g.between(1, 5))
				}},
				{name: "kunder", n: 600, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "navn", g.name(), "sko", g.between(35, 47), "adresse", g.text(40), "tlf", g.text(9),
						"poeng", g.IntN(900))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("bestillinger", match("dag", s.IntN(100)), join("kunder", "kunde", "_id", "k"),
						d("$unwind", d("path", "$k", "preserveNullAndEmptyArrays", true)),
						d("$project", d("par", 1, "navn", "$k.navn", "sko", "$k.sko")))
				}},
			},
		},
		{
			name: "keräilyt", service: "warehouse", pays: "extref", fine: "relation",
			why: "each picking list joins name and shelf of the article of each of its lines, which extref copies into an array",
			colls: []coll{
				{name: "keräilyt", n: 1200, doc: func(g gen, i int) bson.D {
					return d("_id", snow(11, i), "tila", g.of("auki", "valmis"),
						"rivit", list(g.between(2, 9), func(int) any { return d("artikkeli", g.IntN(500), "kpl", g.between(1, 20)) }))
				}},
				{name: "artikkelit", n: 500, doc: func(g gen, i int) bson.D {
					return d("_id", i, "nimi", g.text(14), "hylly", key("H", g.IntN(150)), "toimittaja", g.name(),
						"paino", g.money(), "teksti", g.text(150))
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.aggregate("keräilyt", match("_id", snow(11, s.IntN(1200))), d("$unwind", "$rivit"),
						join("artikkelit", "rivit.artikkeli", "_id", "art"), d("$unwind", "$art"),
						d("$project", d("rivit.kpl", 1, "art.nimi", 1, "art.hylly", 1)))
				}},
				{2, func(s *session, _ int) {
					s.update("artikkelit", d("_id", s.IntN(500)), d("$set", d("hylly",
						key("H", s.IntN(150)))))
				}},
			},
		},
		{
			name: "legs", service: "airport", pays: "extref|relation",
			why: "a resolver loads name and city of the destination for each leg of a rotation, one findOne each",
			colls: []coll{
				{name: "legs", n: 2000, indexes: []string{"rotation"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(41, i), "rotation", i/10, "to", fmtCode(g.IntN(300)), "off", minute(i*9))
				}},
				{name: "airports", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", fmtCode(i), "name", g.text(18), "city", g.city(), "runways", g.between(1, 6),
						"elevation", g.IntN(3000), "tz", g.text(12))
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					s.dereference("airports", s.find("legs", d("rotation", s.IntN(200)), by{sort: d("off", 1)}),
						"to", keep("name", "city"))
				}},
			},
		},
		{
			name: "check_ins", service: "hotel", fine: "relation",
			why: "the reception needs the whole registration form of twelve fields, more than extref is for",
			colls: []coll{
				{name: "check_ins", n: 1200, indexes: []string{"dia"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(46, i), "dia", i%120, "ficha", oid(47, i))
				}},
				{name: "fichas", n: 1200, doc: func(g gen, i int) bson.D {
					return append(d("_id", oid(47, i)), d(pairs(fourthPrefixed("campo", "A", "B", "C", "D", "E", "F", "G", "H", "I", "J",
						"K", "L"),
						func(string) any { return g.text(12) })...)...)
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.aggregate("check_ins", match("dia", s.IntN(120)), join("fichas", "ficha", "_id", "ficha"), d("$unwind", "$ficha"))
				}},
				{60, func(s *session, _ int) {
					s.update("fichas", d("_id", oid(47, s.IntN(1200))), d("$set", d("campoA",
						s.text(12))))
				}},
			},
		},
		{
			name: "avanslar", service: "payroll", harm: "extref",
			why: "the joined balance changes more often than it is read and must be right, two reasons against a copy",
			colls: []coll{
				{name: "avanslar", n: 1500, indexes: []string{"durum"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(48, i), "durum", i%75, "hesap", oid(49, g.IntN(300)), "tutar", g.between(100, 9000))
				}},
				{name: "hesaplar", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", oid(49, i), "bakiye", g.between(0, 90_000), "iban", key("TR", i), "banka", g.city(),
						"not", g.text(30))
				}},
			},
			traffic: []requests{
				{80, func(s *session, _ int) {
					s.aggregate("avanslar", match("durum", s.IntN(75)), join("hesaplar", "hesap", "_id", "h"), d("$unwind", "$h"),
						d("$project", d("tutar", 1, "h.bakiye", 1)))
				}},
				{240, func(s *session, _ int) {
					s.update("hesaplar", d("_id", oid(49, s.IntN(300))), d("$inc", d("bakiye", s.between(-900, 900))))
				}},
			},
		},
		{
			name: "fakturak", service: "translation",
			why: "a yearly report joins twice, beside two hundred reads that need no name, and a rare join stays $lookup",
			colls: []coll{
				{name: "fakturak", n: 1500, indexes: []string{"bezeroa"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(50, i), "bezeroa", oid(51, i%300), "urtea", 2015+i%10, "zentimoak", g.between(1000, 90_000))
				}},
				{name: "bezeroak", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", oid(51, i), "izena", g.name(), "helbidea", g.text(40), "epea", g.between(10, 90))
				}},
			},
			traffic: []requests{
				{200, func(s *session, _ int) { s.one("fakturak", d("_id", oid(50, s.IntN(1500))), nil) }},
				{2, func(s *session, i int) {
					s.aggregate("fakturak", match("urtea", 2015+i), join("bezeroak", "bezeroa", "_id", "b"), d("$project",
						d("b.izena", 1, "zentimoak", 1)))
				}},
				{60, func(s *session, _ int) {
					s.update("bezeroak", d("_id", oid(51, s.IntN(300))), d("$set", d("izena",
						s.name())))
				}},
			},
		},
		{
			name: "závody", service: "brewery", fine: "relation|subset",
			why: "the join brings the many entries of a contest by their owner, not one document by _id, and all of them are shown",
			colls: []coll{
				{name: "závody", n: 100, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "rok", 1990+i,
						"mesto", g.city())
				}},
				{name: "přihlášky", n: 2000, indexes: []string{"zavod"}, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "zavod", int32(i%100), "pivo", g.text(12), "body", g.between(1, 50))
				}},
			},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.aggregate("závody", match("_id", int32(s.IntN(100))), join("přihlášky", "_id", "zavod", "prihlasky"))
				}},
				{40, func(s *session, i int) {
					s.insert("přihlášky", d("_id", int32(10_000+i), "zavod", int32(s.IntN(100)), "pivo", s.text(12), "body", 20))
				}},
			},
		},
		{
			name: "leiekontrakter", service: "ski",
			why: "a contract already has the customer's name beside the key, and no read joins",
			colls: []coll{{name: "leiekontrakter", n: 1500, indexes: []string{"kunde._id"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(42, i), "kunde", d("_id", int64(g.IntN(600)), "navn", g.name()), "fra", at(i),
					"kr", g.between(200, 4000))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.find("leiekontrakter", d("kunde._id", int64(s.IntN(600))), by{}) }},
			},
		},
		{
			name: "tallers", service: "dance", fine: "relation",
			why: "the teachers of a workshop are read by one $in of a bounded list, and no reference dangles",
			colls: []coll{
				{name: "tallers", n: 500, doc: func(g gen, i int) bson.D {
					return d("_id", meteor('w', i), "tema", g.text(14), "mestres", a{meteor('m', i%40), meteor('m', (i+7)%40)})
				}},
				{name: "mestres", n: 40, doc: func(g gen, i int) bson.D {
					return d("_id", meteor('m', i), "nom", g.name(),
						"bio", g.text(100))
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					i := s.IntN(500)
					s.one("tallers", d("_id", meteor('w', i)), nil)
					s.find("mestres", d("_id", d("$in", a{meteor('m', i%40), meteor('m', (i+7)%40)})), by{})
				}},
			},
		},
		{
			name: "로그인", service: "gym",
			why: "each request reads its login by a token and then one account whole, which is no loop over an answer",
			colls: []coll{
				{name: "로그인", n: 800, indexes: []string{"토큰"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(52, i), "토큰", key("tok", i), "계정", oid(53, i%400), "만료", at(9000))
				}},
				{name: "계정", n: 400, doc: func(g gen, i int) bson.D {
					return d("_id", oid(53, i), "이름", g.name(), "전화", g.text(11), "주소", g.text(40), "권한", g.of("회원", "직원"),
						"점", g.IntN(90))
				}},
			},
			traffic: []requests{
				{130, func(s *session, _ int) {
					i := s.IntN(800)
					s.one("로그인", d("토큰", key("tok", i)), nil)
					s.one("계정", d("_id", oid(53, i%400)), nil)
				}},
				{130, func(s *session, _ int) { s.raise("계정", oid(53, s.IntN(400)), "점", s.between(1, 9)) }},
			},
		},
		{
			name: "vevők", service: "pharmacy",
			why: "a customer has one to three addresses by nature, embedded and read with the customer",
			colls: []coll{{name: "vevők", n: 900, indexes: []string{"taj"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(54, i), "taj", i+100_000, "név", g.name(),
					"címek", list(g.between(1, 3), func(int) any { return d("város", g.city(), "utca", g.text(14)) }))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("vevők", d("taj", s.IntN(900)+100_000), nil) }},
				{15, func(s *session, _ int) {
					s.update("vevők", d("taj", s.IntN(900)+100_000), d("$set", d("címek.0.város", s.city())))
				}},
			},
		},
		{
			name: "siirrot", service: "warehouse",
			why: "after each transfer the service reads the same document of settings, which no join or copy would spare",
			colls: []coll{
				{name: "siirrot", n: 1000, doc: func(g gen, i int) bson.D {
					return d("_id", snow(12, i), "mistä", g.IntN(150), "mihin", g.IntN(150), "kpl", g.between(1, 90))
				}},
				{name: "asetukset", n: 3, doc: func(g gen, i int) bson.D {
					return d("_id", i, "raja", g.IntN(50),
						"teksti", g.text(40))
				}},
			},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.one("siirrot", d("_id", snow(12, s.IntN(1000))), nil)
					s.one("asetukset", d("_id", 1), nil)
				}},
			},
		},
		{
			name: "grups", service: "dance", pays: "relation", fine: "extref",
			why: "a list of pupils is resolved by a findOne for each, and one in twelve pupils was deleted and is still referred to",
			colls: []coll{
				{name: "grups", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", meteor('g', i), "nivell", g.between(1, 6), "alumnes",
						list(g.between(6, 14), func(int) any { return meteor('a', g.IntN(1090)) }))
				}},
				{name: "alumnes", n: 1000, doc: func(g gen, i int) bson.D {
					return d("_id", meteor('a', i), "nom", g.name(), "edat", g.between(6, 80), "telèfon", g.text(9),
						"pagat", g.IntN(2) == 1)
				}},
			},
			traffic: []requests{
				{30, func(s *session, _ int) {
					group := s.one("grups", d("_id", meteor('g', s.IntN(300))), nil)
					for _, pupil := range group["alumnes"].(a) {
						s.one("alumnes", d("_id", pupil), nil)
					}
				}},
				{10, func(s *session, _ int) {
					s.update("grups", d("_id", meteor('g', s.IntN(300))), d("$pull", d("alumnes", meteor('a', s.IntN(1000)))))
				}},
			},
		},
		{
			name: "artikoloj", service: "wiki", pays: "relation",
			why: "articles and categories name each other in arrays, both are read, and one in twenty links is on one side only",
			colls: []coll{
				{name: "artikoloj", n: 1000, indexes: []string{"kategorioj"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "titolo", g.text(20), "kategorioj",
						a{key("kat", i%50), key("kat", (i/50+25)%50), key("kat", (i*3+1)%50)})
				}},
				{name: "kategorioj", n: 50, doc: func(g gen, i int) bson.D {
					pages := a{}
					for p := range 1000 {
						if (p%50 == i || (p/50+25)%50 == i || (p*3+1)%50 == i) && g.IntN(20) > 0 {
							pages = append(pages, p)
						}
					}
					return d("_id", key("kat", i), "nomo", g.text(12), "artikoloj", pages)
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					article := s.one("artikoloj", d("_id", s.IntN(1000)), nil)
					for _, category := range article["kategorioj"].(a) {
						s.one("kategorioj", d("_id", category), keep("nomo"))
					}
				}},
				{40, func(s *session, _ int) {
					category := s.one("kategorioj", d("_id", key("kat", s.IntN(50))), nil)
					for _, article := range category["artikoloj"].(a)[:5] {
						s.one("artikoloj", d("_id", article), nil)
					}
				}},
				{10, func(s *session, i int) {
					s.update("artikoloj", d("_id", i*7), d("$addToSet", d("kategorioj", key("kat", i))))
					s.update("kategorioj", d("_id", key("kat", i)), d("$addToSet", d("artikoloj", i*7)))
				}},
			},
		},
		{
			name: "crews", service: "airport", pays: "relation", fine: "extref",
			why: "the members of a crew, in their order, are loaded one by one and whole",
			colls: []coll{
				{name: "crews", n: 400, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(43, i), "duty", at(i*3), "members", list(g.between(4, 9), func(int) any {
						return uuid(44,
							g.IntN(700))
					}))
				}},
				{name: "staff", n: 700, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(44, i), "name", g.name(), "base", g.city(), "rank", g.of("cpt", "fo", "cc"),
						"licence", g.text(12),
						"medical", at(i), "hours", g.IntN(9000), "photo", g.text(60))
				}},
			},
			traffic: []requests{
				{40, func(s *session, _ int) {
					crew := s.one("crews", d("_id", uuid(43, s.IntN(400))), nil)
					for _, member := range crew["members"].(a) {
						s.one("staff", d("_id", member), nil)
					}
				}},
			},
		},
		{
			name: "트레이너", service: "gym", pays: "relation", fine: "subset|extref",
			why: "a page of trainers sends one find for the clients of each trainer, for which ChildrenOf is one",
			colls: []coll{
				{name: "트레이너", n: 120, indexes: []string{"지점"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(55, i), "이름", g.name(), "지점", i%12)
				}},
				{name: "고객", n: 1800, indexes: []string{"담당"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(56, i), "담당", oid(55, g.IntN(120)), "이름", g.name(), "목표", g.text(30), "체중", g.between(45, 120))
				}},
			},
			traffic: []requests{
				{25, func(s *session, _ int) {
					for _, trainer := range s.find("트레이너", d("지점", s.IntN(12)), by{}) {
						s.find("고객", d("담당", trainer["_id"]), by{})
					}
				}},
			},
		},
		{
			name: "hospody", service: "brewery", pays: "relation", fine: "subset|extref",
			why: "a round of a driver loads the kegs at each pub by a find of its own",
			colls: []coll{
				{name: "hospody", n: 200, indexes: []string{"trasa"}, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "jmeno", g.text(14), "trasa", i/12, "mesto", g.city())
				}},
				{name: "sudy", n: 2000, indexes: []string{"hospoda"}, doc: func(g gen, i int) bson.D {
					return d("_id", key("SUD", i), "hospoda", int32(g.IntN(200)), "litru", g.of("30", "50"), "pivo", g.text(12),
						"cislo", i)
				}},
			},
			traffic: []requests{
				{25, func(s *session, _ int) {
					for _, pub := range s.find("hospody", d("trasa", s.IntN(16)), by{sort: d("jmeno", 1)}) {
						s.find("sudy", d("hospoda", pub["_id"]), by{})
					}
				}},
				{15, func(s *session, _ int) {
					s.update("sudy", d("_id", key("SUD", s.IntN(2000))), d("$set", d("hospoda",
						int32(s.IntN(200)))))
				}},
			},
		},
		{
			name: "bölümler", service: "payroll", pays: "relation",
			why: "departments list their employees, deletes leave the lists as they are, and one in ten references points to nobody",
			colls: []coll{
				{name: "bölümler", n: 150, doc: func(g gen, i int) bson.D {
					return d("_id", oid(57, i), "ad", g.text(14), "çalışanlar", list(g.between(8, 20),
						func(int) any { return oid(58, g.IntN(1000)) }))
				}},
				{name: "çalışanlar", n: 900, doc: func(g gen, i int) bson.D {
					return d("_id", oid(58, i), "ad", g.name(), "tel", g.text(10), "giriş", at(i), "maaş", g.between(20, 90)*1000)
				}},
			},
			traffic: []requests{
				{130, func(s *session, _ int) {
					department := s.one("bölümler", d("_id", oid(57, s.IntN(150))), nil)
					s.find("çalışanlar", d("_id", d("$in", department["çalışanlar"])), by{})
				}},
				{12, func(s *session, i int) { s.remove("çalışanlar", d("_id", oid(58, i*11))) }},
			},
		},
	}
}

// fmtCode is the i-th code of three letters.
func fmtCode(i int) string {
	return string([]byte{'A' + byte(i/26/26%26), 'A' + byte(i/26%26), 'A' + byte(i%26)})
}

// Trees and graphs: tree.
func fourthTreeCases() []labelled {
	under := func(i, branches int) any {
		if i == 0 {
			return nil
		}
		return (i - 1) / branches
	}
	graph := func(s *session, coll, start, from, to string, id any) {
		s.aggregate(coll, match("_id", id), d("$graphLookup", d("from", coll, "startWith", start, "connectFromField", from,
			"connectToField", to, "as", "all")))
	}
	return []labelled{
		{
			name: "sijainnit", service: "warehouse", pays: "tree",
			why: "everything below a hall, aisle or rack is read by $graphLookup over the parents",
			colls: []coll{{name: "sijainnit", n: 800, indexes: []string{"ylempi"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "ylempi", under(i, 4), "nimi", g.text(10), "kantavuus", g.between(50, 2000))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { graph(s, "sijainnit", "$_id", "_id", "ylempi", s.between(1, 60)) }},
				{4, func(s *session, _ int) {
					s.update("sijainnit", d("_id", s.between(400, 799)), d("$set", d("nimi",
						s.text(10))))
				}},
			},
		},
		{
			name: "kadro", service: "payroll", pays: "tree",
			why: "each approval walks from an employee up to the board by $graphLookup over the managers",
			colls: []coll{{name: "kadro", n: 900, indexes: []string{"yönetici"}, doc: func(g gen, i int) bson.D {
				boss := under(i, 3)
				if boss != nil {
					boss = oid(60, boss.(int))
				}
				return d("_id", oid(60, i), "yönetici", boss, "ad", g.name(), "sınır", g.between(1, 90)*1000)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					graph(s, "kadro", "$yönetici", "yönetici", "_id", oid(60, s.between(100, 899)))
				}},
			},
		},
		{
			name: "fakoj", service: "wiki", pays: "tree", fine: "relation|extref",
			why: "the breadcrumb of a subject reads one parent after the other up to the root",
			colls: []coll{{name: "fakoj", n: 700, doc: func(g gen, i int) bson.D {
				parent := under(i, 2)
				if parent != nil {
					parent = key("fako", parent.(int))
				}
				return d("_id", key("fako", i), "supera", parent, "nomo", g.text(12))
			}}},
			traffic: []requests{
				{30, func(s *session, _ int) {
					for id := any(key("fako", s.between(200, 699))); id != nil; {
						id = s.one("fakoj", d("_id", id), nil)["supera"]
					}
				}},
			},
		},
		{
			name: "zonas", service: "hotel", pays: "tree|relation",
			why: "a resort's zones list their children, and a plan of all below one loads each child by a findOne, level by level",
			colls: []coll{{name: "zonas", n: 400, doc: func(g gen, i int) bson.D {
				below := a{}
				for c := i*3 + 1; c <= i*3+3 && c < 400; c++ {
					below = append(below, int64(c))
				}
				return d("_id", int64(i), "nome", g.text(12), "filhos", below)
			}}},
			traffic: []requests{
				{15, func(s *session, _ int) {
					level := a{int64(s.between(1, 12))}
					for range 3 {
						next := a{}
						for _, id := range level {
							next = append(next, s.one("zonas", d("_id", id), nil)["filhos"].(a)...)
						}
						level = next
					}
				}},
			},
		},
		{
			name: "khu_vực", service: "taxi", pays: "tree",
			why: "the price of a ride asks for all areas above a street by $graphLookup",
			colls: []coll{{name: "khu_vực", n: 600, indexes: []string{"thuộc"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "thuộc", under(i, 3), "tên", g.text(12), "hệ_số", g.money())
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { graph(s, "khu_vực", "$thuộc", "thuộc", "_id", s.between(60, 599)) }},
			},
		},
		{
			name: "kokoonpanot", service: "warehouse", pays: "tree",
			why: "a part is in several assemblies, without cycles, and what one needs is read by $graphLookup over lists of children",
			colls: []coll{{name: "kokoonpanot", n: 600, doc: func(g gen, i int) bson.D {
				parts := a{}
				for _, c := range []int{i*2 + 1, i*2 + 2, i*2 + 5} {
					if c < 600 {
						parts = append(parts, c)
					}
				}
				return d("_id", i, "nimi", g.text(14), "osat", parts)
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) { graph(s, "kokoonpanot", "$osat", "osat", "_id", s.between(10, 120)) }},
				{6, func(s *session, _ int) {
					s.update("kokoonpanot", d("_id", s.IntN(300)), d("$set", d("nimi", s.text(14))))
				}},
			},
		},
		{
			name: "estils", service: "dance",
			why: "there are two fixed levels, a style and its variants, and each is read by one find",
			colls: []coll{{name: "estils", n: 300, indexes: []string{"pare"}, doc: func(g gen, i int) bson.D {
				if i < 20 {
					return d("_id", meteor('e', i), "pare", nil, "nom", g.text(10))
				}
				return d("_id", meteor('e', i), "pare", meteor('e', i%20), "nom", g.text(10))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) { s.find("estils", d("pare", nil), by{sort: d("nom", 1)}) }},
				{90, func(s *session, _ int) { s.find("estils", d("pare", meteor('e', s.IntN(20))), by{sort: d("nom", 1)}) }},
			},
		},
		{
			name: "destinations", service: "airport", harm: "tree",
			why: "connections of airports lead back to where they began, and tree refuses cycles",
			colls: []coll{{name: "destinations", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", fmtCode(i), "city", g.city(), "flies_to", a{fmtCode((i + 1) % 200), fmtCode((i + 199) % 200),
					fmtCode((i * 7) % 200)})
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.aggregate("destinations", match("_id", fmtCode(s.IntN(200))), d("$graphLookup", d("from", "destinations",
						"startWith", "$flies_to", "connectFromField", "flies_to", "connectToField", "_id", "maxDepth", 1, "as", "reach")))
				}},
			},
		},
		{
			name: "cardápios", service: "hotel",
			why: "a menu is a nested document that is read and saved whole, and stays far below 16 MB",
			colls: []coll{{name: "cardápios", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", oid(61, i), "seções", list(5, func(int) any {
					return d("nome", g.text(8), "pratos", list(6, func(int) any {
						return d("nome", g.text(14),
							"preço", g.between(5, 60))
					}))
				}))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("cardápios", d("_id", oid(61, s.IntN(200))), nil) }},
				{10, func(s *session, _ int) {
					s.save("cardápios", d("_id", oid(61, s.IntN(200)), "seções", a{d("nome", s.text(8), "pratos", a{})}))
				}},
			},
		},
		{
			name: "respondoj", service: "wiki",
			why: "each reply names the root of its discussion, so that a whole discussion is one find on an index",
			colls: []coll{{name: "respondoj", n: 3000, indexes: []string{"radiko,kreita"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(13, i), "radiko", i%150, "al", snow(13, max(0, i-150)), "kreita", at(i), "teksto", g.text(50))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("respondoj", d("radiko", s.IntN(150)), by{sort: d("kreita", 1)}) }},
				{12, func(s *session, i int) {
					s.insert("respondoj", d("_id", snow(13, 5000+i), "radiko", i, "al", snow(13, i), "kreita", at(8000+i),
						"teksto", s.text(50)))
				}},
			},
		},
		{
			name: "узлы", service: "satellite", fine: "tree",
			why: "each part holds its path from the craft, and what lies below is already one range of the index on it",
			colls: []coll{{name: "узлы", n: 700, indexes: []string{"путь"}, doc: func(g gen, i int) bson.D {
				path := ""
				for up := any(i); up != nil; up = under(up.(int), 4) {
					path = "/" + key("u", up.(int)) + path
				}
				return d("_id", i, "путь", path, "масса", g.money())
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					path := "^/" + key("u", 0) + "/" + key("u", s.between(1, 4)) + "/"
					s.find("узлы", d("путь", bson.Regex{Pattern: path}), by{limit: 100})
				}},
			},
		},
		{
			name: "hatóanyagok", service: "pharmacy",
			why: "a substance already has all classes above it in an array that ends with its parent, and is found by one of them",
			colls: []coll{{name: "hatóanyagok", n: 600, indexes: []string{"felettes_osztályok"}, doc: func(g gen, i int) bson.D {
				above := a{}
				for up := under(i, 4); up != nil; up = under(up.(int), 4) {
					above = append(a{up}, above...)
				}
				return d("_id", i, "szülő", under(i, 4), "felettes_osztályok", above, "név", g.text(12))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("hatóanyagok", d("felettes_osztályok", s.between(1, 80)), by{}) }},
			},
		},
	}
}
