package labels_test

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var (
	fifthCountries = strings.Fields("AT AU BE BR CA CH CN DE DK ES FI FR GB IE IN IT JP KR MX NL NO NZ PL PT SE TR US ZA")
	fifthCatalogs  = strings.Fields("hip hd hr sao gaia tyc ucac ngc ic messier bayer flamsteed gj luyten ross wolf tic koi epic twomass ads")
	fifthWoods     = strings.Fields(`vlaga grče razpoke barva trdota debelina rob smola letnice ukrivljenost gostota lesk
		sušenje zvok upogib trak lubje premaz trohnoba teža`)
	fifthSkills = strings.Fields(`go rust java sql kafka excel sap cad welding forklift nursing german french spanish polish
		crm seo copy video audit tax payroll law hvac solar`)
	fifthDental = strings.Fields(`diámetro longitud rosca torque aleación viscosidad fraguado tono radio voltaje presión
		esterilidad lote color grano fluor`)
)

// Fields of one document: attribute, split.
func fifthFieldCases() []labelled {
	return []labelled{
		{
			name: "chart_entries", service: "podcast", pays: "attribute",
			why: "a show is ranked in two to five of 28 countries, each with a field and an index of its own",
			colls: []coll{{name: "chart_entries", n: 1500, indexes: columns("rank", fifthCountries), doc: func(g gen, i int) bson.D {
				return append(d("_id", uuid(10, i), "show", g.text(20)),
					g.scattered("rank", fifthCountries, g.between(2, 5), func() any { return int32(g.between(1, 200)) })...)
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					field := "rank" + s.of(fifthCountries...)
					s.find("chart_entries", d(field, d("$lte", 10)), by{sort: d(field, 1)})
				}},
				{20, func(s *session, _ int) {
					s.update("chart_entries", d("_id", uuid(10, s.IntN(1500))),
						d("$set", d("rank"+s.of(fifthCountries...), int32(s.between(1, 200)))))
				}},
			},
		},
		{
			name: "deske", service: "sawmill", pays: "attribute",
			why: "a board has three or four of twenty measured properties, each with an index, and buyers search by any of them",
			colls: []coll{{name: "deske", n: 2000, indexes: fifthWoods, doc: func(g gen, i int) bson.D {
				return append(d("_id", int64(i), "vrsta", g.of("smreka", "bukev", "hrast")),
					g.scattered("", fifthWoods, g.between(3, 4), func() any { return g.Float64() * 100 })...)
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.find("deske", d(s.of(fifthWoods...), d("$gte", 70, "$lt", 75)), by{limit: 40})
				}},
			},
		},
		{
			name: "tarieven", service: "customs", pays: "attribute",
			why: "a code has its own rate for a few of 28 countries of origin, in a field with an index for each country",
			colls: []coll{{name: "tarieven", n: 1200, indexes: columns("tarief", fifthCountries), doc: func(g gen, i int) bson.D {
				return append(d("_id", key("GN", i), "omschrijving", g.text(30)),
					g.scattered("tarief", fifthCountries, g.between(1, 6), func() any { return cents(g.between(0, 3000)) })...)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("tarieven", d("tarief"+s.of(fifthCountries...), d("$gt", cents(2500))), by{fields: keep("omschrijving")})
				}},
				{20, func(s *session, _ int) {
					s.update("tarieven", d("_id", key("GN", s.IntN(1200))), d("$set", d("tarief"+s.of(fifthCountries...),
						cents(s.IntN(3000)))))
				}},
			},
		},
		{
			name: "materiales", service: "dentist", pays: "attribute",
			why: "sixteen properties of materials each need an index behind the maker, which a wildcard index cannot have on 6.0",
			colls: []coll{{name: "materiales", n: 1400, indexes: columns("marca,datos.", fifthDental),
				doc: func(g gen, i int) bson.D {
					return d("_id", key("REF", i), "marca", i%12, "nombre", g.text(16),
						"datos", g.scattered("", fifthDental, g.between(2, 4), func() any { return g.between(1, 500) }))
				}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("materiales", d("marca", s.IntN(12), "datos."+s.of(fifthDental...), d("$gte", 200, "$lt", 300)), by{})
				}},
			},
		},
		{
			name: "freelancers", service: "jobs", pays: "attribute",
			why: "a person has some of 25 skills with years, a field and an index for each skill, and searches name one skill",
			colls: []coll{{name: "freelancers", n: 1800, indexes: columns("skill_", fifthSkills), doc: func(g gen, i int) bson.D {
				return append(d("_id", oid(10, i), "name", g.name(), "city", g.city()),
					g.scattered("skill_", fifthSkills, g.between(2, 6), func() any { return int32(g.between(1, 30)) })...)
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.aggregate("freelancers", match("skill_"+s.of(fifthSkills...), d("$gte", 5)), d("$limit", 50),
						project("name", 1, "city", 1))
				}},
			},
		},
		{
			name: "stars", service: "observatory", pays: "attribute",
			why: "a star has its number in three or four of 21 catalogues, as a number or a text, each in a field with an index",
			colls: []coll{{name: "stars", n: 2000, indexes: fifthCatalogs, doc: func(g gen, i int) bson.D {
				return append(d("_id", snow(1, i), "mag", g.Float64()*12),
					g.scattered("", fifthCatalogs, g.between(3, 4), func() any {
						if i%2 == 0 {
							return g.IntN(900_000)
						}
						return key("V", g.IntN(90_000))
					})...)
			}}},
			traffic: []requests{
				{170, func(s *session, _ int) { s.one("stars", d(s.of(fifthCatalogs...), s.IntN(900_000)), nil) }},
			},
		},
		{
			name: "acrobates", service: "circus",
			why: "eight measures with an index each, but every artist has all of them, which are ordinary fields",
			colls: []coll{{name: "acrobates", n: 1200, indexes: strings.Fields("taille poids saut portée force souplesse âge scènes"),
				doc: func(g gen, i int) bson.D {
					return d("_id", oid(11, i), "nom", g.name(), "taille", g.between(150, 200), "poids", g.between(45, 110),
						"saut", g.between(30, 120), "portée", g.IntN(90), "force", g.IntN(100), "souplesse", g.IntN(100),
						"âge", g.between(16, 60), "scènes", g.IntN(900))
				}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("acrobates", d(s.of("taille", "poids", "saut", "force"), d("$gt", 90)), by{limit: 20})
				}},
			},
		},
		{
			name: "watu", service: "embassy",
			why: "two fields that most people lack have an index each, which is too few for an array of keys",
			colls: []coll{{name: "watu", n: 1500, indexes: []string{"pasi", "kitambulisho"}, doc: func(g gen, i int) bson.D {
				return append(d("_id", hex(2, i), "jina", g.name()),
					g.scattered("", []string{"pasi", "kitambulisho", "simu"}, 1, func() any { return key("N", i) })...)
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("watu", d(s.of("pasi", "kitambulisho"), key("N", s.IntN(1500))), nil) }},
			},
		},
		{
			name: "ordlister", service: "kindergarten",
			why: "a child's words are in one object with an index over all of its keys already, {words.$**: 1}",
			colls: []coll{{name: "ordlister", n: 900, indexes: []string{"words.$**"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(12, i), "child", int32(i), "words",
					g.scattered("", fifthSkills, g.between(2, 6), func() any { return int32(g.between(1, 40)) }))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("ordlister", d("words."+s.of(fifthSkills...), d("$gt", 20)), by{}) }},
			},
		},
		{
			name: "premii", service: "lottery",
			why: "prices by channel are an array of keys and values with the index of the pattern, so nothing is left to do",
			colls: []coll{{name: "premii", n: 1200, indexes: []string{"canale.k,canale.v"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "joc", g.text(10), "canale", list(g.between(1, 5), func(j int) any {
					return d("k", fifthCountries[j*4+i%4], "v", g.between(1, 100))
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("premii", d("canale", d("$elemMatch", d("k", s.of(fifthCountries...), "v", d("$gte", 50)))), by{})
				}},
			},
		},
		{
			name: "notices", service: "choir",
			why: "many optional fields, none with an index and none in a filter, are shown with their document and cost nothing",
			colls: []coll{{name: "notices", n: 1500, doc: func(g gen, i int) bson.D {
				return append(d("_id", ulid("N", i), "virsraksts", g.text(20)),
					g.scattered("piezīme", fifthCountries, g.between(1, 4), func() any { return g.text(20) })...)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("notices", d("_id", ulid("N", s.IntN(1500))), nil) }},
			},
		},
		{
			name: "exposures_raw", service: "observatory", pays: "split",
			why: "the list of a night reads filter and seconds of documents that are nearly all preview image",
			colls: []coll{{name: "exposures_raw", n: 500, indexes: []string{"night"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(11, i), "night", i%25, "filter", g.of("B", "V", "R"), "seconds", g.between(1, 900),
					"preview", g.blob(12_000), "header", g.text(900))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("exposures_raw", d("night", s.IntN(25)), by{fields: keep("filter", "seconds")})
				}},
				{10, func(s *session, _ int) { s.one("exposures_raw", d("_id", uuid(11, s.IntN(500))), nil) }},
			},
		},
		{
			name: "resumes", service: "jobs", pays: "split",
			why: "hits of the search leave out text and parse of a resume by name, which are nearly all of its bytes",
			colls: []coll{{name: "resumes", n: 600, indexes: []string{"trade"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(13, i), "trade", i%30, "name", g.name(), "years", g.IntN(40), "text", g.text(9000),
					"parsed", d("sections", list(20, func(int) any { return g.text(120) })))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("resumes", d("trade", s.IntN(30)), by{sort: d("years", -1), limit: 20, fields: omit("text", "parsed")})
				}},
				{12, func(s *session, _ int) { s.one("resumes", d("_id", oid(13, s.IntN(600))), nil) }},
			},
		},
		{
			name: "documenten", service: "customs", pays: "split",
			why: "the dossier lists kind and date by an aggregation, and only the viewer of one document needs its scan",
			colls: []coll{{name: "documenten", n: 400, indexes: []string{"dossier"}, doc: func(g gen, i int) bson.D {
				return d("_id", numbered("AMS", i), "dossier", i/8, "soort", g.of("factuur", "vrachtbrief", "certificaat"), "datum",
					at(i), "scan", g.blob(18_000))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("documenten", match("dossier", s.IntN(50)), d("$sort", d("datum", 1)), project("soort", 1, "datum", 1))
				}},
				{10, func(s *session, _ int) { s.one("documenten", d("_id", numbered("AMS", s.IntN(400))), nil) }},
			},
		},
		{
			name: "börn", service: "kindergarten", pays: "split",
			why: "the morning's list shows names of a group, and the photo and the health record are for the page of one child",
			colls: []coll{{name: "börn", n: 400, indexes: []string{"hópur"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(14, i), "hópur", i%20, "nafn", g.name(), "fædd", at(-i*20), "mynd", g.blob(9000),
					"heilsa", d("ofnæmi", g.text(200), "saga", g.text(2500)))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("börn", d("hópur", s.IntN(20)), by{sort: d("nafn", 1), fields: keep("nafn", "fædd")})
				}},
				{10, func(s *session, _ int) { s.one("börn", d("_id", oid(14, s.IntN(400))), nil) }},
			},
		},
		{
			name: "cykler", service: "bikeshare", pays: "split",
			why: "the map reads place and charge, which change all the time, beside a service book of 10 kB that the workshop reads",
			colls: []coll{{name: "cykler", n: 600, indexes: []string{"zone"}, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "zone", i%30, "sted", a{g.Float64() * 10, g.Float64() * 50}, "strøm", g.IntN(100),
					"servicebog", list(60, func(int) any { return g.text(160) }), "tegning", g.text(1500))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) { s.find("cykler", d("zone", s.IntN(30)), by{fields: keep("sted", "strøm")}) }},
				{60, func(s *session, _ int) {
					s.update("cykler", d("_id", int32(s.IntN(600))), d("$set", d("strøm", s.IntN(100))))
				}},
				{8, func(s *session, _ int) { s.one("cykler", d("_id", int32(s.IntN(600))), nil) }},
			},
		},
		{
			name: "notis", service: "choir", pays: "split",
			why: "the librarian lists title and voices of a composer's pieces, and the score of 15 kB is opened for one piece",
			colls: []coll{{name: "notis", n: 450, indexes: []string{"komponists"}, doc: func(g gen, i int) bson.D {
				return d("_id", key("op", i), "komponists", i%30, "nosaukums", g.text(20), "balsis", g.of("SATB", "SSA"),
					"partitūra", g.blob(15_000))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.find("notis", d("komponists", s.IntN(30)), by{sort: d("nosaukums", 1), fields: keep("nosaukums", "balsis")})
				}},
				{8, func(s *session, _ int) { s.one("notis", d("_id", key("op", s.IntN(450))), nil) }},
			},
		},
		{
			name: "pasi", service: "embassy", pays: "split",
			why: "the counter finds passports by day and reads holder and state, not the biometrics and the picture beside them",
			colls: []coll{{name: "pasi", n: 500, indexes: []string{"siku"}, doc: func(g gen, i int) bson.D {
				return d("_id", hex(3, i), "siku", i%50, "mmiliki", d("jina", g.name(), "mji", g.city()), "hali", g.of("tayari", "bado"),
					"alama", d("vidole", g.blob(5000), "iris", g.blob(4000)), "picha", g.blob(6000))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("pasi", d("siku", s.IntN(50)), by{fields: keep("mmiliki.jina", "hali")})
				}},
				{10, func(s *session, _ int) { s.one("pasi", d("_id", hex(3, s.IntN(500))), nil) }},
			},
		},
		{
			name: "contratos", service: "dentist", harm: "split",
			why: "a contract of 8 kB is nearly always read whole to be printed, so two documents would cost two reads",
			colls: []coll{{name: "contratos", n: 400, indexes: []string{"clínica"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(15, i), "clínica", i%40, "firma", at(i), "texto", g.text(8000))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("contratos", d("_id", oid(15, s.IntN(400))), nil) }},
				{6, func(s *session, _ int) { s.find("contratos", d("clínica", s.IntN(40)), by{fields: keep("firma")}) }},
			},
		},
		{
			name: "hlodi", service: "sawmill",
			why: "what the list leaves out are two hundred bytes of remarks, for which its projection is enough",
			colls: []coll{{name: "hlodi", n: 2000, indexes: []string{"kup"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "kup", i%100, "premer", g.between(20, 80), "dolžina", g.between(2, 6), "opomba", g.text(200))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.find("hlodi", d("kup", s.IntN(100)), by{fields: keep("premer", "dolžina")})
				}},
				{10, func(s *session, _ int) { s.one("hlodi", d("_id", int64(s.IntN(2000))), nil) }},
			},
		},
		{
			name: "costumes", service: "circus",
			why: "each of four pages reads another quarter of the fields, and no field is cold",
			colls: []coll{{name: "costumes", n: 500, indexes: []string{"troupe"}, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "troupe", i%25, "patron", g.text(900), "tissu", g.text(900), "retouche", g.text(900),
					"entretien", g.text(900))
			}}},
			traffic: []requests{
				{160, func(s *session, i int) {
					part := []string{"patron", "tissu", "retouche", "entretien"}[i%4]
					s.find("costumes", d("troupe", s.IntN(25)), by{fields: keep(part)})
				}},
			},
		},
		{
			name: "audio.chunks", service: "podcast",
			why: "chunks of files are read whole in their order, as GridFS does",
			colls: []coll{{name: "audio.chunks", n: 120, indexes: []string{"files_id,n"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(16, i), "files_id", oid(17, i/6), "n", int32(i%6), "data", g.blob(30_000))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("audio.chunks", d("files_id", oid(17, s.IntN(20))), by{sort: d("n", 1)})
				}},
			},
		},
		{
			name: "aktualności", service: "lottery",
			why: "every document is large, but the teaser that the list wants is nearly all of it",
			colls: []coll{{name: "aktualności", n: 300, indexes: []string{"lună"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(18, i), "lună", i%12, "titlu", g.text(30), "rezumat", g.text(3000), "autor", g.name())
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.find("aktualności", d("lună", s.IntN(12)), by{limit: 10, fields: keep("titlu", "rezumat")})
				}},
				{20, func(s *session, _ int) { s.one("aktualności", d("_id", oid(18, s.IntN(300))), nil) }},
			},
		},
		{
			name: "instruments_state", service: "observatory",
			why:   "twenty documents of configuration are replaced whole and read whole by one program",
			colls: []coll{{name: "instruments_state", n: 20, doc: func(g gen, i int) bson.D { return fifthState(g, i) }}},
			traffic: []requests{
				{100, func(s *session, _ int) { s.one("instruments_state", d("_id", key("cfg", s.IntN(20))), nil) }},
				{60, func(s *session, _ int) { s.save("instruments_state", fifthState(s.gen, s.IntN(20))) }},
			},
		},
		{
			name: "jeux", service: "circus",
			why: "documents of four kinds share a collection, each kind with two fields of its own that nothing filters by",
			colls: []coll{{name: "jeux", n: 1200, indexes: []string{"ville"}, doc: func(g gen, i int) bson.D {
				own := [][]any{{"lames", g.IntN(9), "cible", g.text(8)}, {"balles", g.IntN(9), "temps", g.IntN(90)},
					{"chevaux", g.IntN(12), "piste", g.text(6)}, {"hauteur", g.IntN(30), "filet", true}}
				return d(slices.Concat([]any{"_id", int32(i), "genre", []string{"couteaux", "jonglage", "équestre", "fil"}[i%4],
					"ville", g.city()}, own[i%4])...)
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("jeux", d("ville", s.city()), by{limit: 20}) }},
			},
		},
	}
}

func fifthState(g gen, i int) bson.D {
	return d("_id", key("cfg", i), "gain", g.between(1, 9), "offsets", list(200, func(int) any { return g.IntN(900) }),
		"log", g.text(2000))
}
