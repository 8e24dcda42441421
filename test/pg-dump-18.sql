--
-- PostgreSQL database dump
--

\restrict mb0DzdBXZXyatu2Aa42eCRPZPcfJcDGCmJMr0KZgdT4qcMX9doaFXJ1XuXEpZwD

-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.6

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: mood; Type: TYPE; Schema: public; Owner: app
--

CREATE TYPE public.mood AS ENUM (
    'a',
    'b c'
);


ALTER TYPE public.mood OWNER TO app;

--
-- Name: pair; Type: TYPE; Schema: public; Owner: app
--

CREATE TYPE public.pair AS (
	x integer,
	y public.mood
);


ALTER TYPE public.pair OWNER TO app;

--
-- Name: positive; Type: DOMAIN; Schema: public; Owner: app
--

CREATE DOMAIN public.positive AS integer NOT NULL
	CONSTRAINT positive_check CHECK ((VALUE > 0));


ALTER DOMAIN public.positive OWNER TO app;

--
-- Name: spans; Type: TYPE; Schema: public; Owner: app
--

CREATE TYPE public.spans AS RANGE (
    subtype = bigint,
    multirange_type_name = public.many_spans
);


ALTER TYPE public.spans OWNER TO app;

--
-- Name: nothing(integer); Type: PROCEDURE; Schema: public; Owner: app
--

CREATE PROCEDURE public.nothing(INOUT n integer)
    LANGUAGE plpgsql
    AS $$begin n := n + 1; end$$;


ALTER PROCEDURE public.nothing(INOUT n integer) OWNER TO app;

--
-- Name: touch(); Type: FUNCTION; Schema: public; Owner: app
--

CREATE FUNCTION public.touch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$begin new.note := coalesce(new.note, 'x'); return new; end$$;


ALTER FUNCTION public.touch() OWNER TO app;

--
-- Name: twice(integer); Type: FUNCTION; Schema: public; Owner: app
--

CREATE FUNCTION public.twice(n integer) RETURNS integer
    LANGUAGE sql IMMUTABLE
    RETURN (n * 2);


ALTER FUNCTION public.twice(n integer) OWNER TO app;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: cache; Type: TABLE; Schema: public; Owner: app
--

CREATE UNLOGGED TABLE public.cache (
    k text NOT NULL COLLATE pg_catalog."C",
    v bytea
)
WITH (autovacuum_enabled=off);
ALTER TABLE ONLY public.cache ALTER COLUMN v SET STORAGE EXTERNAL;
ALTER TABLE ONLY public.cache ALTER COLUMN v SET COMPRESSION pglz;


ALTER TABLE public.cache OWNER TO app;

--
-- Name: children; Type: TABLE; Schema: public; Owner: app
--

CREATE TABLE public.children (
    id bigint NOT NULL,
    parent bigint,
    amount public.positive,
    tags text[] DEFAULT '{}'::text[],
    note text CONSTRAINT note_given NOT NULL NO INHERIT
);


ALTER TABLE public.children OWNER TO app;

--
-- Name: children_id_seq; Type: SEQUENCE; Schema: public; Owner: app
--

ALTER TABLE public.children ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.children_id_seq
    START WITH 10
    INCREMENT BY 5
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: parents; Type: TABLE; Schema: public; Owner: app
--

CREATE TABLE public.parents (
    id bigint NOT NULL,
    key uuid DEFAULT uuidv7(),
    name text CONSTRAINT name_given NOT NULL,
    born date,
    upper text GENERATED ALWAYS AS (upper(name)),
    stored integer GENERATED ALWAYS AS (length(name)) STORED
);


ALTER TABLE public.parents OWNER TO app;

--
-- Name: CONSTRAINT name_given ON parents; Type: COMMENT; Schema: public; Owner: app
--

COMMENT ON CONSTRAINT name_given ON public.parents IS 'named';


--
-- Name: inherited; Type: TABLE; Schema: public; Owner: app
--

CREATE TABLE public.inherited (
    extra jsonb
)
INHERITS (public.parents);


ALTER TABLE public.inherited OWNER TO app;

--
-- Name: late; Type: TABLE; Schema: public; Owner: app
--

CREATE TABLE public.late (
    id integer,
    v text
);


ALTER TABLE public.late OWNER TO app;

--
-- Name: names; Type: VIEW; Schema: public; Owner: app
--

CREATE VIEW public.names WITH (security_barrier='true') AS
 SELECT id,
    name,
    upper
   FROM public.parents
  WHERE (name <> ''::text)
  WITH LOCAL CHECK OPTION;


ALTER VIEW public.names OWNER TO app;

--
-- Name: numbers; Type: SEQUENCE; Schema: public; Owner: app
--

CREATE SEQUENCE public.numbers
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
    CYCLE;


ALTER SEQUENCE public.numbers OWNER TO app;

--
-- Name: odd; Type: TABLE; Schema: public; Owner: app
--

CREATE TABLE public.odd (
    "Quoted ""name""" text,
    "select" integer,
    span public.spans,
    many public.many_spans,
    one public.pair,
    CONSTRAINT odd_select_check CHECK (("select" > 0))
);

ALTER TABLE ONLY public.odd REPLICA IDENTITY FULL;


ALTER TABLE public.odd OWNER TO app;

--
-- Name: COLUMN odd."select"; Type: COMMENT; Schema: public; Owner: app
--

COMMENT ON COLUMN public.odd."select" IS 'a; b''s';


--
-- Name: parents_id_seq; Type: SEQUENCE; Schema: public; Owner: app
--

ALTER TABLE public.parents ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.parents_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: parts; Type: TABLE; Schema: public; Owner: app
--

CREATE TABLE public.parts (
    id integer NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
)
PARTITION BY RANGE (at);


ALTER TABLE public.parts OWNER TO app;

--
-- Name: parts_2024; Type: TABLE; Schema: public; Owner: app
--

CREATE TABLE public.parts_2024 (
    id integer CONSTRAINT parts_id_not_null NOT NULL,
    at timestamp with time zone DEFAULT now() CONSTRAINT parts_at_not_null NOT NULL
)
WITH (fillfactor='70');


ALTER TABLE public.parts_2024 OWNER TO app;

--
-- Name: parts_rest; Type: TABLE; Schema: public; Owner: app
--

CREATE TABLE public.parts_rest (
    id integer CONSTRAINT parts_id_not_null NOT NULL,
    at timestamp with time zone DEFAULT now() CONSTRAINT parts_at_not_null NOT NULL
);


ALTER TABLE public.parts_rest OWNER TO app;

--
-- Name: sums; Type: MATERIALIZED VIEW; Schema: public; Owner: app
--

CREATE MATERIALIZED VIEW public.sums AS
 SELECT parent,
    sum((amount)::integer) AS total
   FROM public.children
  GROUP BY parent
  WITH NO DATA;


ALTER MATERIALIZED VIEW public.sums OWNER TO app;

--
-- Name: typed; Type: TABLE; Schema: public; Owner: app
--

CREATE TABLE public.typed OF public.pair (
    x NOT NULL
);


ALTER TABLE public.typed OWNER TO app;

--
-- Name: parts_2024; Type: TABLE ATTACH; Schema: public; Owner: app
--

ALTER TABLE ONLY public.parts ATTACH PARTITION public.parts_2024 FOR VALUES FROM ('2024-01-01 00:00:00+00') TO ('2025-01-01 00:00:00+00');


--
-- Name: parts_rest; Type: TABLE ATTACH; Schema: public; Owner: app
--

ALTER TABLE ONLY public.parts ATTACH PARTITION public.parts_rest DEFAULT;


--
-- Name: inherited key; Type: DEFAULT; Schema: public; Owner: app
--

ALTER TABLE ONLY public.inherited ALTER COLUMN key SET DEFAULT uuidv7();


--
-- Data for Name: cache; Type: TABLE DATA; Schema: public; Owner: app
--

COPY public.cache (k, v) FROM stdin;
k	\\x00ff
\.


--
-- Data for Name: children; Type: TABLE DATA; Schema: public; Owner: app
--

COPY public.children (id, parent, amount, tags, note) FROM stdin;
10	1	5	{}	n
15	2	7	{}	m
20	99	1	{}	unknown parent
\.


--
-- Data for Name: inherited; Type: TABLE DATA; Schema: public; Owner: app
--

COPY public.inherited (id, key, name, born, extra) FROM stdin;
50	01a21e86-99c6-78e1-92a8-c1dc6749ac9c	child	\N	{"a": 1}
\.


--
-- Data for Name: late; Type: TABLE DATA; Schema: public; Owner: app
--

COPY public.late (id, v) FROM stdin;
1	\N
\.


--
-- Data for Name: odd; Type: TABLE DATA; Schema: public; Owner: app
--

COPY public.odd ("Quoted ""name""", "select", span, many, one) FROM stdin;
\\.	1	[1,5)	{[1,2),[5,9)}	(1,a)
\N	2	empty	{}	\N
\.


--
-- Data for Name: parents; Type: TABLE DATA; Schema: public; Owner: app
--

COPY public.parents (id, key, name, born) FROM stdin;
1	01a21e86-99c6-7507-b159-4d07e84e3aa6	Ada	1815-12-10
2	01a21e86-99c6-77d2-b12b-164e9916adb4	tab\t\\.\n\\restrict x	\N
\.


--
-- Data for Name: parts_2024; Type: TABLE DATA; Schema: public; Owner: app
--

COPY public.parts_2024 (id, at) FROM stdin;
1	2024-05-01 00:00:00+00
\.


--
-- Data for Name: parts_rest; Type: TABLE DATA; Schema: public; Owner: app
--

COPY public.parts_rest (id, at) FROM stdin;
2	2030-01-01 00:00:00+00
\.


--
-- Data for Name: typed; Type: TABLE DATA; Schema: public; Owner: app
--

COPY public.typed (x, y) FROM stdin;
1	b c
\.


--
-- Name: children_id_seq; Type: SEQUENCE SET; Schema: public; Owner: app
--

SELECT pg_catalog.setval('public.children_id_seq', 20, true);


--
-- Name: numbers; Type: SEQUENCE SET; Schema: public; Owner: app
--

SELECT pg_catalog.setval('public.numbers', 41, true);


--
-- Name: parents_id_seq; Type: SEQUENCE SET; Schema: public; Owner: app
--

SELECT pg_catalog.setval('public.parents_id_seq', 2, true);


--
-- Name: cache cache_pkey; Type: CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE ONLY public.cache
    ADD CONSTRAINT cache_pkey PRIMARY KEY (k);


--
-- Name: children children_pkey; Type: CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE ONLY public.children
    ADD CONSTRAINT children_pkey PRIMARY KEY (id) INCLUDE (amount);

ALTER TABLE public.children CLUSTER ON children_pkey;


--
-- Name: parents old_enough; Type: CHECK CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE public.parents
    ADD CONSTRAINT old_enough CHECK ((born < '2100-01-01'::date)) NOT ENFORCED;


--
-- Name: parents parents_key_key; Type: CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE ONLY public.parents
    ADD CONSTRAINT parents_key_key UNIQUE NULLS NOT DISTINCT (key);


--
-- Name: parents parents_pkey; Type: CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE ONLY public.parents
    ADD CONSTRAINT parents_pkey PRIMARY KEY (id);


--
-- Name: parts parts_pkey; Type: CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE ONLY public.parts
    ADD CONSTRAINT parts_pkey PRIMARY KEY (id, at);


--
-- Name: parts_2024 parts_2024_pkey; Type: CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE ONLY public.parts_2024
    ADD CONSTRAINT parts_2024_pkey PRIMARY KEY (id, at);


--
-- Name: parts_rest parts_rest_pkey; Type: CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE ONLY public.parts_rest
    ADD CONSTRAINT parts_rest_pkey PRIMARY KEY (id, at);


--
-- Name: typed typed_pkey; Type: CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE ONLY public.typed
    ADD CONSTRAINT typed_pkey PRIMARY KEY (x);


--
-- Name: late v_given; Type: CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE public.late
    ADD CONSTRAINT v_given NOT NULL v NOT VALID;


--
-- Name: odd_lower_idx; Type: INDEX; Schema: public; Owner: app
--

CREATE INDEX odd_lower_idx ON public.odd USING btree (lower("Quoted ""name""")) WHERE ("select" > 1);


--
-- Name: odd_span_idx; Type: INDEX; Schema: public; Owner: app
--

CREATE INDEX odd_span_idx ON public.odd USING gist (span);


--
-- Name: parts_at; Type: INDEX; Schema: public; Owner: app
--

CREATE INDEX parts_at ON ONLY public.parts USING brin (at);


--
-- Name: parts_2024_at_idx; Type: INDEX; Schema: public; Owner: app
--

CREATE INDEX parts_2024_at_idx ON public.parts_2024 USING brin (at);


--
-- Name: parts_rest_at_idx; Type: INDEX; Schema: public; Owner: app
--

CREATE INDEX parts_rest_at_idx ON public.parts_rest USING brin (at);


--
-- Name: sums_parent; Type: INDEX; Schema: public; Owner: app
--

CREATE UNIQUE INDEX sums_parent ON public.sums USING btree (parent);


--
-- Name: parts_2024_at_idx; Type: INDEX ATTACH; Schema: public; Owner: app
--

ALTER INDEX public.parts_at ATTACH PARTITION public.parts_2024_at_idx;


--
-- Name: parts_2024_pkey; Type: INDEX ATTACH; Schema: public; Owner: app
--

ALTER INDEX public.parts_pkey ATTACH PARTITION public.parts_2024_pkey;


--
-- Name: parts_rest_at_idx; Type: INDEX ATTACH; Schema: public; Owner: app
--

ALTER INDEX public.parts_at ATTACH PARTITION public.parts_rest_at_idx;


--
-- Name: parts_rest_pkey; Type: INDEX ATTACH; Schema: public; Owner: app
--

ALTER INDEX public.parts_pkey ATTACH PARTITION public.parts_rest_pkey;


--
-- Name: both; Type: STATISTICS; Schema: public; Owner: app
--

CREATE STATISTICS public."both" (dependencies, mcv) ON parent, amount FROM public.children;


ALTER STATISTICS public."both" OWNER TO app;

--
-- Name: expressed; Type: STATISTICS; Schema: public; Owner: app
--

CREATE STATISTICS public.expressed ON parent, (amount::integer * 2) FROM public.children;


ALTER STATISTICS public.expressed OWNER TO app;

--
-- Name: children touching; Type: TRIGGER; Schema: public; Owner: app
--

CREATE TRIGGER touching BEFORE INSERT OR UPDATE OF note ON public.children FOR EACH ROW WHEN ((new.note IS DISTINCT FROM 'x'::text)) EXECUTE FUNCTION public.touch();


--
-- Name: children known; Type: FK CONSTRAINT; Schema: public; Owner: app
--

ALTER TABLE ONLY public.children
    ADD CONSTRAINT known FOREIGN KEY (parent) REFERENCES public.parents(id) ON DELETE SET NULL (parent) NOT ENFORCED;


--
-- Name: sums; Type: MATERIALIZED VIEW DATA; Schema: public; Owner: app
--

REFRESH MATERIALIZED VIEW public.sums;


--
-- PostgreSQL database dump complete
--

\unrestrict mb0DzdBXZXyatu2Aa42eCRPZPcfJcDGCmJMr0KZgdT4qcMX9doaFXJ1XuXEpZwD

