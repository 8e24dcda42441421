/**
 * Three applications as they existed before their adoption: each as the dump of one schema, in the form that pg_dump
 * writes, and as the migrations of a host that has taken the application over.
 */
import type { Database } from '../../../kernel/database/database.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'

export interface LegacyApplication {
  readonly name: string
  /** @param schema quoted @param owner quoted */
  readonly dump: (schema: string, owner: string) => string
  readonly migrations: readonly TenantMigration[]
  /** Statements of the application, with the schema in its search path; each can run several times. */
  readonly writes: readonly string[]
  /** Tables, with the number of rows of the dump. */
  readonly rows: Readonly<Record<string, number>>
}

const migration = (name: string, up: string): TenantMigration => ({ name, checksum: `of ${name}`, up })

const shop: LegacyApplication = {
  name: 'shop',
  dump: (s, owner) => `
    CREATE SCHEMA ${s}; ALTER SCHEMA ${s} OWNER TO ${owner};
    CREATE TYPE ${s}.order_state AS ENUM ('new', 'paid', 'shipped'); ALTER TYPE ${s}.order_state OWNER TO ${owner};
    CREATE FUNCTION ${s}.touch() RETURNS trigger LANGUAGE plpgsql AS $$begin new.updated_at := now(); return new; end$$;
    ALTER FUNCTION ${s}.touch() OWNER TO ${owner};
    CREATE TABLE ${s}.customers (id integer NOT NULL, email character varying(200) NOT NULL, name text);
    ALTER TABLE ${s}.customers OWNER TO ${owner};
    CREATE SEQUENCE ${s}.customers_id_seq AS integer START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1;
    ALTER SEQUENCE ${s}.customers_id_seq OWNER TO ${owner};
    ALTER SEQUENCE ${s}.customers_id_seq OWNED BY ${s}.customers.id;
    CREATE TABLE ${s}.orders (id integer NOT NULL, customer_id integer NOT NULL, state ${s}.order_state DEFAULT 'new'::${s}.order_state NOT NULL,
      total numeric(12,2) DEFAULT 0 NOT NULL, updated_at timestamp with time zone DEFAULT now() NOT NULL,
      CONSTRAINT orders_total_check CHECK ((total >= (0)::numeric)));
    ALTER TABLE ${s}.orders OWNER TO ${owner};
    CREATE SEQUENCE ${s}.orders_id_seq AS integer START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1;
    ALTER SEQUENCE ${s}.orders_id_seq OWNER TO ${owner};
    ALTER SEQUENCE ${s}.orders_id_seq OWNED BY ${s}.orders.id;
    CREATE VIEW ${s}.unpaid AS SELECT orders.id, customers.email FROM (${s}.orders JOIN ${s}.customers ON ((customers.id = orders.customer_id)))
      WHERE (orders.state = 'new'::${s}.order_state);
    ALTER VIEW ${s}.unpaid OWNER TO ${owner};
    ALTER TABLE ONLY ${s}.customers ALTER COLUMN id SET DEFAULT nextval('${s}.customers_id_seq'::regclass);
    ALTER TABLE ONLY ${s}.orders ALTER COLUMN id SET DEFAULT nextval('${s}.orders_id_seq'::regclass);
    INSERT INTO ${s}.customers (id, email) VALUES (1, 'ada@example.com'), (2, 'grace@example.com');
    INSERT INTO ${s}.orders (id, customer_id, total) VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30);
    SELECT pg_catalog.setval('${s}.customers_id_seq', 2, true);
    SELECT pg_catalog.setval('${s}.orders_id_seq', 3, true);
    ALTER TABLE ONLY ${s}.customers ADD CONSTRAINT customers_email_key UNIQUE (email);
    ALTER TABLE ONLY ${s}.customers ADD CONSTRAINT customers_pkey PRIMARY KEY (id);
    ALTER TABLE ONLY ${s}.orders ADD CONSTRAINT orders_pkey PRIMARY KEY (id);
    CREATE INDEX orders_unpaid ON ${s}.orders USING btree (customer_id) WHERE (state = 'new'::${s}.order_state);
    CREATE TRIGGER orders_touch BEFORE UPDATE ON ${s}.orders FOR EACH ROW EXECUTE FUNCTION ${s}.touch();
    ALTER TABLE ONLY ${s}.orders ADD CONSTRAINT orders_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES ${s}.customers(id) ON DELETE CASCADE;
    GRANT USAGE ON SCHEMA ${s} TO PUBLIC;
    GRANT SELECT ON TABLE ${s}.unpaid TO PUBLIC;
    GRANT SELECT (email) ON TABLE ${s}.customers TO PUBLIC;`,
  migrations: [
    migration(
      '0001_customers',
      `create function touch() returns trigger language plpgsql as $$begin new.updated_at := now(); return new; end$$;
       create table customers (id serial primary key, email varchar(200) not null unique, name text)`,
    ),
    migration(
      '0002_orders',
      `create type order_state as enum ('new', 'paid', 'shipped');
       create table orders (id serial primary key, customer_id int not null references customers on delete cascade,
         state order_state not null default 'new', total numeric(12, 2) not null default 0 check (total >= 0),
         updated_at timestamptz not null default now());
       create index orders_unpaid on orders (customer_id) where state = 'new';
       create trigger orders_touch before update on orders for each row execute function touch();
       create view unpaid as select orders.id, email from orders join customers on customers.id = customer_id where state = 'new'`,
    ),
    migration('0003_notes', 'create table notes (order_id int references orders, body text not null)'),
  ],
  writes: [
    'insert into orders (customer_id, total) values (2, 40)',
    `update orders set state = 'paid' where id = 1`,
    'select * from unpaid',
  ],
  rows: { customers: 2, orders: 3 },
}

const helpdesk: LegacyApplication = {
  name: 'helpdesk',
  dump: (s, owner) => `
    CREATE SCHEMA ${s}; ALTER SCHEMA ${s} OWNER TO ${owner};
    SET ROLE ${owner};
    CREATE DOMAIN ${s}.subject AS text CONSTRAINT subject_check CHECK ((length(VALUE) <= 200));
    CREATE TYPE ${s}.agent AS (name text, level integer);
    CREATE TABLE ${s}.tickets (id bigint NOT NULL, title ${s}.subject NOT NULL, body jsonb DEFAULT '{}'::jsonb NOT NULL, assigned ${s}.agent,
      words tsvector GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, (title)::text)) STORED);
    ALTER TABLE ${s}.tickets ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
      SEQUENCE NAME ${s}.tickets_id_seq START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1);
    CREATE TABLE ${s}.events (ticket_id bigint NOT NULL, at timestamp with time zone NOT NULL, what text NOT NULL) PARTITION BY RANGE (at);
    CREATE TABLE ${s}.events_2025 (ticket_id bigint NOT NULL, at timestamp with time zone NOT NULL, what text NOT NULL);
    CREATE TABLE ${s}.events_2026 (ticket_id bigint NOT NULL, at timestamp with time zone NOT NULL, what text NOT NULL);
    ALTER TABLE ONLY ${s}.events ATTACH PARTITION ${s}.events_2025 FOR VALUES FROM ('2025-01-01 00:00:00+00') TO ('2026-01-01 00:00:00+00');
    ALTER TABLE ONLY ${s}.events ATTACH PARTITION ${s}.events_2026 FOR VALUES FROM ('2026-01-01 00:00:00+00') TO ('2027-01-01 00:00:00+00');
    INSERT INTO ${s}.tickets (title) VALUES ('It is broken'), ('It is still broken');
    INSERT INTO ${s}.events VALUES (1, '2025-06-01', 'opened'), (2, '2026-02-01', 'opened');
    CREATE MATERIALIZED VIEW ${s}.counts AS SELECT ticket_id, count(*) AS events FROM ${s}.events GROUP BY ticket_id;
    CREATE FUNCTION ${s}.open_tickets(above integer DEFAULT 0) RETURNS bigint LANGUAGE sql STABLE
      BEGIN ATOMIC SELECT count(*) AS count FROM ${s}.tickets WHERE (tickets.id > open_tickets.above); END;
    CREATE STATISTICS ${s}.events_pairs ON ticket_id, what FROM ${s}.events;
    ALTER TABLE ONLY ${s}.tickets ADD CONSTRAINT tickets_pkey PRIMARY KEY (id);
    ALTER TABLE ONLY ${s}.events ADD CONSTRAINT events_pkey PRIMARY KEY (ticket_id, at);
    ALTER TABLE ONLY ${s}.events_2025 ADD CONSTRAINT events_2025_pkey PRIMARY KEY (ticket_id, at);
    ALTER TABLE ONLY ${s}.events_2026 ADD CONSTRAINT events_2026_pkey PRIMARY KEY (ticket_id, at);
    ALTER INDEX ${s}.events_pkey ATTACH PARTITION ${s}.events_2025_pkey;
    ALTER INDEX ${s}.events_pkey ATTACH PARTITION ${s}.events_2026_pkey;
    CREATE INDEX tickets_body ON ${s}.tickets USING gin (body jsonb_path_ops);
    CREATE INDEX tickets_words ON ${s}.tickets USING gin (words);
    ALTER TABLE ${s}.events ADD CONSTRAINT events_ticket_id_fkey FOREIGN KEY (ticket_id) REFERENCES ${s}.tickets(id);
    RESET ROLE;`,
  migrations: [
    migration(
      '0001_tickets',
      `create domain subject as text check (length(value) <= 200);
       create type agent as (name text, level int);
       create table tickets (id bigint generated always as identity primary key, title subject not null, body jsonb not null default '{}',
         assigned agent, words tsvector generated always as (to_tsvector('simple', title)) stored);
       create index tickets_body on tickets using gin (body jsonb_path_ops);
       create index tickets_words on tickets using gin (words)`,
    ),
    migration(
      '0002_events',
      `create table events (ticket_id bigint references tickets, at timestamptz, what text not null, primary key (ticket_id, at)) partition by range (at);
       create table events_2025 partition of events for values from ('2025-01-01 00:00+00') to ('2026-01-01 00:00+00');
       create table events_2026 partition of events for values from ('2026-01-01 00:00+00') to ('2027-01-01 00:00+00');
       create materialized view counts as select ticket_id, count(*) as events from events group by ticket_id;
       create statistics events_pairs on ticket_id, what from events;
       create function open_tickets(above int default 0) returns bigint language sql stable
         begin atomic select count(*) from tickets where id > above; end`,
    ),
    migration('0003_priority', 'alter table tickets add priority int not null default 0'),
  ],
  writes: [
    `insert into tickets (title) values ('Another')`,
    `insert into events select 1, max(at) + interval '1 hour', 'closed' from events where at >= '2026-01-01'`,
    'select open_tickets()',
  ],
  rows: { tickets: 2, events: 2 },
}

const ledger: LegacyApplication = {
  name: 'ledger',
  dump: (s, owner) => `
    CREATE SCHEMA ${s}; ALTER SCHEMA ${s} OWNER TO ${owner};
    SET ROLE ${owner};
    CREATE SEQUENCE ${s}."Numbers" START WITH 1000 INCREMENT BY 10 NO MINVALUE MAXVALUE 99999 CACHE 1 CYCLE;
    CREATE TABLE ${s}."Account" ("Region" text NOT NULL, "No" integer DEFAULT nextval('${s}."Numbers"'::regclass) NOT NULL, "Parent" integer, closed boolean);
    CREATE TABLE ${s}.entry (region text COLLATE pg_catalog."C" NOT NULL, account integer NOT NULL, booked date NOT NULL, amount bigint NOT NULL);
    CREATE TABLE ${s}.reserve (during int4range NOT NULL, seat integer NOT NULL);
    CREATE TABLE ${s}.entry_archive () INHERITS (${s}.entry);
    CREATE UNLOGGED TABLE ${s}.cache (key text NOT NULL, value bytea);
    INSERT INTO ${s}."Account" ("Region", "No") VALUES ('eu', 1000), ('us', 1010);
    INSERT INTO ${s}.entry VALUES ('eu', 1000, '2026-01-01', 5), ('eu', 1000, '2026-01-02', -5), ('us', 1010, '2026-01-02', 7);
    INSERT INTO ${s}.entry_archive VALUES ('eu', 1000, '2020-01-01', 5);
    ALTER TABLE ONLY ${s}."Account" ADD CONSTRAINT "Account_pkey" PRIMARY KEY ("Region", "No");
    ALTER TABLE ONLY ${s}.cache ADD CONSTRAINT cache_pkey PRIMARY KEY (key);
    ALTER TABLE ONLY ${s}.reserve ADD CONSTRAINT reserve_during_excl EXCLUDE USING gist (during WITH &&);
    ALTER TABLE ONLY ${s}.entry ADD CONSTRAINT entry_region_account_fkey FOREIGN KEY (region, account)
      REFERENCES ${s}."Account"("Region", "No") DEFERRABLE INITIALLY DEFERRED;
    ALTER TABLE ONLY ${s}."Account" ADD CONSTRAINT "Account_Region_Parent_fkey" FOREIGN KEY ("Region", "Parent") REFERENCES ${s}."Account"("Region", "No");
    CREATE UNIQUE INDEX open_accounts ON ${s}."Account" USING btree (lower("Region"), "No" DESC) WHERE (closed IS NOT TRUE);
    CREATE PROCEDURE ${s}.book(IN region text, IN account integer, IN amount bigint) LANGUAGE plpgsql
      AS $$begin insert into entry values (region, account, current_date, amount); end$$;
    CREATE AGGREGATE ${s}.product(bigint) (SFUNC = int8mul, STYPE = bigint, INITCOND = '1');
    CREATE RULE keep_archive AS ON DELETE TO ${s}.entry_archive DO INSTEAD NOTHING;
    RESET ROLE;
    GRANT SELECT, REFERENCES ON TABLE ${s}.entry TO ${owner} WITH GRANT OPTION;`,
  migrations: [
    migration(
      '0001_accounts',
      `create sequence "Numbers" start 1000 increment 10 maxvalue 99999 cycle;
       create table "Account" ("Region" text, "No" int default nextval('"Numbers"'), "Parent" int, closed bool, primary key ("Region", "No"),
         foreign key ("Region", "Parent") references "Account" ("Region", "No"));
       create unique index open_accounts on "Account" (lower("Region"), "No" desc) where closed is not true`,
    ),
    migration(
      '0002_entries',
      `create table entry (region text collate "C" not null, account int not null, booked date not null, amount bigint not null,
         foreign key (region, account) references "Account" ("Region", "No") deferrable initially deferred);
       create table entry_archive () inherits (entry);
       create rule keep_archive as on delete to entry_archive do instead nothing;
       create table reserve (during int4range not null, seat int not null, exclude using gist (during with &&));
       create unlogged table cache (key text primary key, value bytea);
       create procedure book(region text, account int, amount bigint) language plpgsql
         as $$begin insert into entry values (region, account, current_date, amount); end$$;
       create aggregate product(bigint) (sfunc = int8mul, stype = bigint, initcond = '1')`,
    ),
    migration('0003_currency', `alter table entry add currency text not null default 'EUR'`),
  ],
  writes: [
    `call book('eu', 1000, 9)`,
    `insert into "Account" ("Region") values ('asia')`,
    'insert into reserve select int4range(count(*)::int, count(*)::int + 1), 1 from reserve',
  ],
  rows: { Account: 2, entry: 4 },
}

export const LEGACY_APPLICATIONS: readonly LegacyApplication[] = [shop, helpdesk, ledger]

/** The last migration is the first one after the adoption. */
export const baselineOf = ({ migrations }: LegacyApplication): string[] =>
  migrations.slice(0, -1).map(({ name }) => name)

/** Owner and effective rights of the schema, of each of its objects and columns, and its default privileges. */
export async function rightsOf(database: Pick<Database, 'sql'>, schema: string): Promise<readonly RightsOfObject[]> {
  const { rows } = await database.sql(
    `with space as (select * from pg_namespace where nspname = $1)
     select 'schema' as object, pg_get_userbyid(nspowner) as owner,
       array(select unnest(coalesce(nspacl, acldefault('n', nspowner)))::text order by 1) as rights from space
     union all
     select relkind::text || ' ' || relname, pg_get_userbyid(relowner), array(select unnest(coalesce(relacl,
       acldefault(case relkind when 'S' then 's'::"char" else 'r' end, relowner)))::text order by 1)
     from pg_class join space on space.oid = relnamespace where relkind in ('r', 'p', 'v', 'm', 'S', 'f')
     union all
     select 'column ' || relname || '.' || attname, '', array(select unnest(attacl)::text order by 1)
     from pg_attribute join pg_class c on c.oid = attrelid join space on space.oid = relnamespace where attacl is not null
     union all
     select 'routine ' || p.oid::regprocedure, pg_get_userbyid(proowner), array(select unnest(coalesce(proacl, acldefault('f', proowner)))::text order by 1)
     from pg_proc p join space on space.oid = pronamespace
     union all
     select 'type ' || typname, pg_get_userbyid(typowner), array(select unnest(coalesce(typacl, acldefault('T', typowner)))::text order by 1)
     from pg_type join space on space.oid = typnamespace where typtype in ('d', 'e') or typtype = 'c' and exists (
       select from pg_class where oid = typrelid and relkind = 'c')
     union all
     select 'statistics ' || stxname, pg_get_userbyid(stxowner), '{}' from pg_statistic_ext join space on space.oid = stxnamespace
     union all
     select 'default ' || defaclobjtype::text || ' of ' || pg_get_userbyid(defaclrole), '', array(select unnest(defaclacl)::text order by 1)
     from pg_default_acl join space on space.oid = defaclnamespace
     order by 1`,
    [schema],
  )
  return rows
}

interface RightsOfObject {
  readonly object: string
  readonly owner: string
  readonly rights: readonly string[]
}
