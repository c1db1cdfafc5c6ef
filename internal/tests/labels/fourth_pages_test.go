package labels_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Long lists, read in parts: paging.
func fourthPageCases() []labelled {
	return []labelled{
		{
			name: "bags", service: "airport", pays: "paging",
			why: "the tracing desk leafs through all bags by the time of the last scan, thousands deep",
			colls: []coll{{name: "bags", n: 5000, indexes: []string{"scanned"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(10, i), "tag", key("0220", i), "scanned", minute(i), "belt", g.between(1, 14), "owner", g.name())
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("bags", bson.D{}, by{sort: d("scanned", -1), skip: s.IntN(48) * 100, limit: 100})
				}},
			},
		},
		{
			name: "reservas", service: "hotel", pays: "paging",
			why: "a page of Spring Data is a find with skip and a count, and the back office goes thousands of bookings deep",
			colls: []coll{{name: "reservas", n: 6000, indexes: []string{"estado,chegada"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(20, i), "estado", g.of("ativa", "ativa", "ativa", "cancelada"), "chegada", at(i%9000), "hóspede",
					g.name(), "noites", g.between(1, 14), "_class", "br.hotel.Reserva")
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.find("reservas", d("estado", "ativa"), by{sort: d("chegada", 1), skip: s.IntN(80) * 50, limit: 50})
					s.count("reservas", d("estado", "ativa"))
				}},
			},
		},
		{
			name: "tuotteet", service: "warehouse", pays: "paging",
			why: "pickers browse the catalogue by name to the end, and each page walks over all before it",
			colls: []coll{{name: "tuotteet", n: 5000, indexes: []string{"nimi"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(3, i), "nimi", g.text(20), "ean", key("64", i), "varasto", g.between(0, 400))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("tuotteet", bson.D{}, by{sort: d("nimi", 1, "_id", 1), fields: keep("nimi", "ean"),
						skip: s.IntN(160) * 30, limit: 30})
				}},
			},
		},
		{
			name: "segmentuak", service: "translation", pays: "paging",
			why: "Prisma pages over the segments of a memory by an aggregation with $skip, up to 4,000 deep",
			colls: []coll{{name: "segmentuak", n: 6000, indexes: []string{"memoria,aldatua"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(21, i), "memoria", i%6/5, "aldatua", at(i), "iturria", g.text(60), "xedea", g.text(60))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.prisma("segmentuak", d("memoria", 0), d("aldatua", -1), s.IntN(90)*50, 50, keep("iturria", "xedea", "aldatua"))
				}},
			},
		},
		{
			name: "historio", service: "wiki", pays: "paging",
			why: "a mirror reads the list of all edits page by page to the oldest, by the time of the edit",
			colls: []coll{{name: "historio", n: 6000, indexes: []string{"redaktita"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(4, i), "paĝo", key("paĝo", g.IntN(1000)), "redaktita", at(i), "resumo", g.text(40),
					"bajtoj", g.between(-900, 900))
			}}},
			traffic: []requests{
				{140, func(s *session, i int) {
					s.find("historio", bson.D{}, by{sort: d("redaktita", -1, "_id", -1), skip: i * 42, limit: 42})
				}},
			},
		},
		{
			name: "chuyến", service: "taxi", pays: "paging",
			why: "the plugin's page and total stand in $facet after a sort, so a page deep in the trips of a city skips thousands",
			colls: []coll{{name: "chuyến", n: 5000, indexes: []string{"thành_phố,lúc"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(5, i), "thành_phố", g.of("HCM", "HCM", "HCM", "HCM", "Huế"), "lúc", minute(i),
					"giá", g.between(20, 400)*1000)
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.facets("chuyến", d("thành_phố", "HCM"), d("lúc", -1), s.IntN(75)*50, 50)
				}},
			},
		},
		{
			name: "출입", service: "gym", pays: "paging",
			why: "a job copies all visits in parts of 200 by skip, and each part walks over all before it",
			colls: []coll{{name: "출입", n: 8000, doc: func(g gen, i int) bson.D {
				return d("_id", oid(22, i), "회원", g.IntN(1500), "들어옴", minute(i), "문", g.between(1, 6))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("출입", bson.D{}, by{sort: d("_id", 1), skip: i % 40 * 200, limit: 200})
				}},
			},
		},
		{
			name: "billetter", service: "ski", pays: "paging",
			why: "the office looks through the tickets of a resort by the day of sale, thousands deep",
			colls: []coll{{name: "billetter", n: 6000, indexes: []string{"anlegg,solgt"}, doc: func(g gen, i int) bson.D {
				return d("_id", key("B", i), "anlegg", g.of("Hemsedal", "Hemsedal", "Trysil"), "solgt", at(i),
					"kr", g.between(300, 900), "navn", g.name())
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("billetter", match("anlegg", "Hemsedal"), d("$sort", d("solgt", -1)), d("$skip", s.IntN(70)*50+25),
						d("$limit", 50))
				}},
			},
		},
		{
			name: "promoções", service: "hotel",
			why: "guests look at the first pages of a long list, and no page skips more than a hundred",
			colls: []coll{{name: "promoções", n: 4000, indexes: []string{"fim"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(23, i), "título", g.text(30), "fim", at(i), "desconto", g.between(5, 40))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("promoções", bson.D{}, by{sort: d("fim", 1), skip: s.IntN(6) * 20,
						limit: 20})
				}},
			},
		},
		{
			name: "기구", service: "gym",
			why: "the list has 300 machines, and the manual of paging says that skip is enough for a few hundred documents",
			colls: []coll{{name: "기구", n: 300, doc: func(g gen, i int) bson.D {
				return d("_id", i, "이름", g.text(12), "층", g.between(1, 4))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("기구", bson.D{}, by{sort: d("이름", 1), skip: s.IntN(14) * 20, limit: 20})
				}},
			},
		},
		{
			name: "citaĵoj", service: "wiki",
			why: "the quote of the moment skips a random number without an order, so there is no last document to go on from",
			colls: []coll{{name: "citaĵoj", n: 4000, doc: func(g gen, i int) bson.D {
				return d("_id", i, "teksto", g.text(80), "aŭtoro", g.name())
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("citaĵoj", bson.D{}, by{skip: s.IntN(4000), limit: 1}) }},
			},
		},
		{
			name: "снимки", service: "satellite",
			why: "the list already goes on from the last _id of a page",
			colls: []coll{{name: "снимки", n: 5000, doc: func(g gen, i int) bson.D {
				return d("_id", snow(6, i), "облачность", g.IntN(100), "широта", g.between(-60, 60), "размер", g.between(1, 900))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("снимки", d("_id", d("$lt", snow(6, s.between(100, 5000)))), by{sort: d("_id", -1), limit: 50})
				}},
			},
		},
		{
			name: "hareketler", service: "payroll",
			why: "an export reads a sorted cursor in batches and skips nothing",
			colls: []coll{{name: "hareketler", n: 3000, indexes: []string{"dönem"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(24, i), "dönem", i%30, "personel", g.IntN(900), "kuruş", g.between(1000, 90_000))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) { s.stream("hareketler", d("dönem", s.IntN(30)), d("personel", 1), 40) }},
			},
		},
		{
			name: "festes", service: "dance", harm: "paging",
			why: "the deep list is sorted by an array of prices, which the manual of paging refuses as a sort value",
			colls: []coll{{name: "festes", n: 4000, indexes: []string{"preus"}, doc: func(g gen, i int) bson.D {
				return d("_id", meteor('f', i), "nom", g.text(20), "preus", a{g.between(5, 20), g.between(21, 60)})
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("festes", bson.D{}, by{sort: d("preus", 1), skip: s.IntN(75) * 50, limit: 50})
				}},
			},
		},
		{
			name: "voos_perdidos", service: "airport",
			why: "one page in the first hundred is read again and again, and nobody goes deeper",
			colls: []coll{{name: "voos_perdidos", n: 3000, indexes: []string{"criado"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(25, i), "voo", key("TP", i), "criado", at(i))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.aggregate("voos_perdidos", d("$sort", d("criado", -1)), d("$skip", 20), d("$limit", 20))
				}},
			},
		},
		{
			name: "vehículos_frontera", service: "warehouse",
			why: "a dashboard shows the twenty newest trucks by a sort and a limit",
			colls: []coll{{name: "vehículos_frontera", n: 4000, indexes: []string{"entró"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(11, i), "placa", key("MX", i), "entró", minute(i), "muelle", g.between(1, 40))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("vehículos_frontera", bson.D{}, by{sort: d("entró", -1), limit: 20}) }},
			},
		},
	}
}

// Many similar fields: attribute.
func fourthFieldCases() []labelled {
	specs := fourthPrefixed("om_", "väri", "jännite", "paino", "leveys", "korkeus", "syvyys", "teho", "kierteet",
		"halkaisija", "vääntö", "virta", "taajuus", "paine", "tilavuus", "lämpötila", "materiaali", "luokka", "pinta", "kovuus", "nopeus", "akku", "ip")
	countries := fourthPrefixed("ár_", "AT", "BE", "BG", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "IT", "LT",
		"LV", "NL", "PL", "PT", "RO", "SE", "SI", "SK")
	languages := fourthPrefixed("titolo_", "ar", "bg", "ca", "cs", "da", "de", "el", "en", "es", "et", "eu", "fa", "fi", "fr",
		"ga", "he", "hi", "hr", "hu", "id", "is", "it", "ja", "ko")
	gear := []string{"lengde", "bredde", "radius", "flex", "vekt", "stivhet", "spenn",
		"kjerne", "stål", "såle", "mansjett", "volum", "last", "spenner", "dln", "tupp", "hæl", "rocker"}
	exercises := fourthPrefixed("기록_", "스쿼트", "벤치", "데드", "로우", "런지", "풀업", "딥스", "클린", "저크", "스내치", "플랭크", "버피",
		"로잉", "사이클", "수영", "달리기", "줄넘기", "스텝")
	capabilities := fourthPrefixed("has", "Fuel", "Power", "Water", "Bridge", "Stairs", "Heating", "Cooling", "Lights",
		"Marshal", "Wifi")
	sizes := []string{"coll", "pit", "cintura", "maluc", "màniga", "esquena", "cuixa", "camal", "peu", "cap"}
	rarely := fourthPrefixed("п_", "масса", "длина", "ток", "спин", "дрейф", "бак", "тяга", "альбедо", "крен", "фаза", "шум",
		"полоса", "канал", "дата", "борт", "вес", "код", "тип")
	fields := func(g gen, names []string, n int, value func() any) []any {
		return pairs(g.some(names, n), func(string) any { return value() })
	}
	return []labelled{
		{
			name: "varaosat", service: "warehouse", pays: "attribute",
			why: "there are 22 specifications with an index each, and a part has three or four of them",
			colls: []coll{{name: "varaosat", n: 1000, indexes: specs, doc: func(g gen, i int) bson.D {
				return append(d("_id", snow(7, i), "nimi", g.text(14)),
					d(fields(g, specs, g.between(3, 4), func() any { return g.between(1, 60) })...)...)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("varaosat", d(s.of(specs...), s.between(1, 60)), by{limit: 20}) }},
				{20, func(s *session, _ int) {
					s.update("varaosat", d("_id", snow(7, s.IntN(1000))), d("$set", d(s.of(specs...), s.between(1, 60))))
				}},
			},
		},
		{
			name: "exportárak", service: "pharmacy", pays: "attribute",
			why: "the price is a field for each of 22 countries, a package is sold in four, and each field has an index",
			colls: []coll{{name: "exportárak", n: 900, indexes: countries, doc: func(g gen, i int) bson.D {
				return append(d("_id", oid(30, i), "vonalkód", key("599", i)),
					d(fields(g, countries, g.between(3, 5), func() any { return g.money() })...)...)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("exportárak", d(s.of(countries...), d("$gte", 100, "$lt", 104)), by{})
				}},
			},
		},
		{
			name: "eroj", service: "wiki", pays: "attribute",
			why: "an item has titles in a few of 24 languages, each in a field with an index, and is found by a title",
			colls: []coll{{name: "eroj", n: 1000, indexes: languages, doc: func(g gen, i int) bson.D {
				return append(d("_id", key("Q", i), "specoj", g.between(1, 9)),
					d(fields(g, languages, g.between(2, 5), func() any { return g.text(16) })...)...)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.aggregate("eroj", match(s.of(languages...), s.text(16)), d("$limit", 5)) }},
				{15, func(s *session, _ int) {
					s.findAndUpdate("eroj", d("_id", key("Q", s.IntN(1000))), d("$set", d(s.of(languages...), s.text(16))))
				}},
			},
		},
		{
			name: "utstyr", service: "ski", pays: "attribute",
			why: "the properties of gear are 18 fields of a subdocument with an index each, and a piece has three of them",
			colls: []coll{{name: "utstyr", n: 900, indexes: fourthPrefixed("egenskaper.", gear...), doc: func(g gen, i int) bson.D {
				return d("_id", oid(31, i), "merke", g.of("Fischer", "Madshus"), "egenskaper",
					d(fields(g, gear, g.between(2, 4), func() any { return g.between(1, 200) })...))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("utstyr", d("egenskaper."+s.of(gear...), s.between(1, 200)), by{}) }},
			},
		},
		{
			name: "최고기록", service: "gym", pays: "attribute",
			why: "a member has a best in three of 18 exercises, each a field with an index, and searches are for the best of all",
			colls: []coll{{name: "최고기록", n: 900, indexes: exercises, doc: func(g gen, i int) bson.D {
				return append(d("_id", oid(32, i), "회원", g.name()),
					d(fields(g, exercises, 3, func() any { return g.between(20, 250) })...)...)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("최고기록", d(s.of(exercises...), d("$gt", 240)), by{limit: 10}) }},
			},
		},
		{
			name: "stands", service: "airport",
			why: "all stands have all ten flags, so an array of entries would only repeat the names",
			colls: []coll{{name: "stands", n: 600, indexes: capabilities, doc: func(g gen, i int) bson.D {
				return append(d("_id", key("S", i), "apron", i%12), d(pairs(capabilities,
					func(string) any { return g.IntN(3) })...)...)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("stands", d(s.of(capabilities...), 2), by{limit: 20}) }},
			},
		},
		{
			name: "fornecedores", service: "hotel",
			why: "four optional fields are few, and a new optional field needs no pattern",
			colls: []coll{{name: "fornecedores", n: 700, indexes: []string{"fax", "loja"}, doc: func(g gen, i int) bson.D {
				return append(d("_id", int64(i), "nome", g.name(), "cidade", g.city()),
					d(fields(g, []string{"fax", "loja", "armazém", "desde"}, 1, func() any { return g.IntN(500) })...)...)
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("fornecedores", d(s.of("fax", "loja"), s.IntN(500)), by{}) }},
			},
		},
		{
			name: "паспорта", service: "satellite",
			why: "18 fields are sparse, but nobody searches by one and none has an index that an array would spare",
			colls: []coll{{name: "паспорта", n: 800, doc: func(g gen, i int) bson.D {
				return append(d("_id", i+40_000, "название", g.text(12)), d(fields(g, rarely, 4,
					func() any { return g.money() })...)...)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("паспорта", d("_id", s.IntN(800)+40_000), nil) }},
			},
		},
		{
			name: "tarvikkeet", service: "warehouse",
			why: "the properties already are an array of names and values under one index",
			colls: []coll{{name: "tarvikkeet", n: 900, indexes: []string{"ominaisuudet.k,ominaisuudet.v"},
				doc: func(g gen, i int) bson.D {
					return d("_id", snow(8, i), "nimi", g.text(12), "ominaisuudet",
						list(g.between(2, 5), func(j int) any { return d("k", specs[(i+j*5)%len(specs)], "v", g.IntN(60)) }))
				}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("tarvikkeet", d("ominaisuudet", d("$elemMatch", d("k", s.of(specs...), "v", s.IntN(60)))), by{})
				}},
			},
		},
		{
			name: "vestits", service: "dance", harm: "attribute",
			why: "all costumes have all sizes, and a search compares three of them, for which a compound index is faster",
			colls: []coll{{name: "vestits", n: 800, indexes: []string{"coll,pit,cintura", "cintura,maluc,camal",
				"màniga,esquena,coll"},
				doc: func(g gen, i int) bson.D {
					return append(d("_id", meteor('t', i), "nom", g.text(12)), d(pairs(sizes,
						func(string) any { return g.between(20, 90) })...)...)
				}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("vestits", d("coll", s.between(20, 90), "pit", s.between(20, 90), "cintura", d("$lt", 60)), by{limit: 20})
				}},
			},
		},
	}
}
