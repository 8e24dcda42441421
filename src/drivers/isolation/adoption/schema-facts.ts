/**
 * Reads the objects of one existing schema from the catalog: owners, rights, and references to and from other schemas.
 *
 * Objects are found by their dependency on the schema, because `pg_class` has no index on the schema: the queries read
 * only this schema, in a database with any number of schemas.
 */
import type pg from 'pg'
import type { Right } from './rights.ts'

export interface ObjectFacts {
  /** For `alter … owner to`: `table`, `view`, `sequence`, `routine`, `type` or another kind. */
  readonly kind: string
  /** Qualified and quoted: `legacy.orders`, `legacy.total(integer)` */
  readonly name: string
  readonly owner: string
  /** Whether the owner follows that of a table. */
  readonly followsTable: boolean
  /** With the defaults of the kind; null for a kind without rights. */
  readonly rights: readonly Right[] | null
  /** All columns of a table. */
  readonly columns: readonly { readonly column: string; readonly rights: readonly Right[] }[]
}

export interface DefaultRights {
  /** As in `pg_default_acl.defaclobjtype`: r tables, S sequences, f functions, T types. */
  readonly type: string
  readonly role: string
  readonly rights: readonly Right[]
}

export interface SchemaFacts {
  readonly owner: string
  readonly rights: readonly Right[]
  readonly objects: readonly ObjectFacts[]
  readonly defaults: readonly DefaultRights[]
  /** Extensions that were created in the schema. */
  readonly extensions: readonly string[]
  /** Objects of other schemas that refer to objects of this one. */
  readonly referrers: readonly string[]
  /** Objects of this schema that refer to the schema of another tenant. */
  readonly references: readonly string[]
  /** Routines, operators, domains and views of other schemas that objects of this one use, and that another role owns. */
  readonly foreignRoutines: readonly string[]
  /** Owners of these objects whose rights the role of `url` does not have. */
  readonly otherOwners: readonly string[]
  /** Owners of these objects, other than the role of `url` and superusers, that may create objects in the schema `public`. */
  readonly creatorsInPublic: readonly string[]
  /** Whether the record of an adoption, or of a migration, has the name of the schema. */
  readonly isKnown: boolean
  /** Roles of which the scope role is a member. */
  readonly rolesOfScope: readonly string[]
  /** The role of `url`, which reads them. */
  readonly reader: string
}

export interface Pinned {
  /** Whether the database has the tables of Tenantry's records. */
  readonly hasRecords: boolean
}

/**
 * Settings of the transaction that `readFacts` and `readStructure` need. Names without a schema are those of
 * `pg_catalog`, so all others are qualified in the results. A query of the catalog takes longer to compile than to run.
 */
export const PINNED = `select set_config('search_path', 'pg_catalog', true), set_config('jit', 'off', true),
  set_config('plan_cache_mode', 'force_generic_plan', true), to_regclass('tenantry.adoptions') is not null as "hasRecords"`

const explode = (acl: string) => `(
  select coalesce(json_agg(json_build_object(
      'grantee', case a.grantee when 0 then '' else pg_get_userbyid(a.grantee) end, 'grantor', pg_get_userbyid(a.grantor),
      'privilege', a.privilege_type, 'isGrantable', a.is_grantable) order by a.grantee, a.privilege_type, a.grantor), '[]')
  from aclexplode(${acl}) a)`

/** Classes of objects that are in the schema of their table. */
const PARTS_OF_TABLES = `'pg_rewrite'::regclass, 'pg_attrdef'::regclass, 'pg_trigger'::regclass, 'pg_policy'::regclass`

/** The schema of an object, quoted. Functions, because each look-up in a catalog makes the query longer to plan. */
const schemaOf = (classid: string, objid: string): string => `(case when ${classid} in (${PARTS_OF_TABLES})
  then quote_ident((pg_identify_object_as_address(${classid}, ${objid}, 0)).object_names[1])
  else (pg_identify_object(${classid}, ${objid}, 0)).schema end)`

/** The role that may change the code of a routine, an operator, a domain or a view; null for other objects. */
const OWNER_OF_CODE = `(case refclassid
  when 'pg_proc'::regclass then (select proowner from pg_proc where oid = refobjid)
  when 'pg_operator'::regclass then (select proowner from pg_operator o join pg_proc on pg_proc.oid = oprcode where o.oid = refobjid)
  when 'pg_type'::regclass then (
    select t.typowner from pg_type t left join pg_type e on e.oid = t.typelem where t.oid = refobjid and 'd' in (t.typtype, e.typtype))
  when 'pg_class'::regclass then (select relowner from pg_class where oid = refobjid and relkind = 'v')
  end)`

const KNOWN = `
  exists (select from tenantry.migrations where locator = $1) or exists (select from tenantry.adoptions where locator = $1)`

/** Parameters: $1 schema, $2 scope role. Each change of a schema makes PostgreSQL plan the query again. */
const facts = (isKnown: string): string => `
  with space as materialized (select * from pg_namespace where nspname = $1::text),
  member as materialized (
    select d.classid, d.objid from space
    join pg_depend d on d.refclassid = 'pg_namespace'::regclass and d.refobjid = space.oid and d.deptype = 'n'
    where d.classid <> 'pg_extension'::regclass and not exists (
      select from pg_depend e where e.classid = d.classid and e.objid = d.objid and e.deptype = 'e')),
  relation as materialized (select c.* from member join pg_class c on c.oid = objid where classid = 'pg_class'::regclass),
  object (classid, oid, kind, owner, acl, follows) as materialized (
    select 'pg_class'::regclass, oid,
      case relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' when 'f' then 'foreign table' else 'table' end,
      relowner, coalesce(relacl, acldefault(case relkind when 'S' then 's'::"char" else 'r' end, relowner)),
      relkind = 'S' and exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = relation.oid
          and d.refclassid = 'pg_class'::regclass and d.refobjsubid > 0 and d.deptype in ('a', 'i'))
    from relation where relkind in ('r', 'p', 'v', 'm', 'f', 'S')
    union all
    select classid, p.oid, 'routine', proowner, coalesce(proacl, acldefault('f', proowner)), false
    from member join pg_proc p on p.oid = objid where classid = 'pg_proc'::regclass
    union all
    select classid, t.oid, 'type', typowner, coalesce(typacl, acldefault('T', typowner)), false
    from member join pg_type t on t.oid = objid where classid = 'pg_type'::regclass and typtype in ('b', 'c', 'd', 'e', 'r')
      and typelem = 0 and (typtype <> 'c' or (select relkind from pg_class where oid = typrelid) = 'c')
    union all
    select member.classid, member.objid, (pg_identify_object(member.classid, member.objid, 0)).type, coalesce(o.refobjid, 10), null::aclitem[], false
    from member left join pg_shdepend o on o.dbid = (select oid from pg_database where datname = current_database())
      and o.classid = member.classid and o.objid = member.objid and o.deptype = 'o'
    where member.classid in ('pg_collation'::regclass, 'pg_conversion'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass,
      'pg_opfamily'::regclass, 'pg_ts_config'::regclass, 'pg_ts_dict'::regclass, 'pg_statistic_ext'::regclass)),
  inside as materialized (
    select classid, objid from member
    union all select 'pg_constraint'::regclass, c.oid from relation join pg_constraint c on conrelid = relation.oid
    union all select 'pg_rewrite'::regclass, r.oid from relation join pg_rewrite r on ev_class = relation.oid
    union all select 'pg_attrdef'::regclass, a.oid from relation join pg_attrdef a on adrelid = relation.oid
    union all select 'pg_trigger'::regclass, t.oid from relation join pg_trigger t on tgrelid = relation.oid
    union all select 'pg_policy'::regclass, p.oid from relation join pg_policy p on polrelid = relation.oid),
  referring as materialized (
    select distinct d.classid, d.objid from member join pg_depend d on d.refclassid = member.classid and d.refobjid = member.objid
    where d.deptype in ('n', 'a', 'P', 'S') and not exists (
      select from inside where inside.classid = d.classid and inside.objid = d.objid)),
  referrer as (select referring.* from referring, space where ${schemaOf('classid', 'objid')} <> quote_ident(nspname)),
  referred as materialized (
    select distinct inside.classid, inside.objid, d.refclassid, d.refobjid
    from inside cross join lateral (
      select * from pg_depend where pg_depend.classid = inside.classid and pg_depend.objid = inside.objid offset 0) d
    where d.deptype in ('n', 'a') and d.refobjid >= 16384 and d.refclassid in ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_operator'::regclass)
      and not exists (select from member where member.classid = d.refclassid and member.objid = d.refobjid)),
  reference as (select referred.*, ${schemaOf('refclassid', 'refobjid')} as into_space from referred)
  select json_build_object(
    'owner', pg_get_userbyid(nspowner),
    'rights', ${explode(`coalesce(nspacl, acldefault('n', nspowner))`)},
    'objects', (select coalesce(json_agg(json_build_object(
        'kind', kind, 'name', (pg_identify_object(classid, oid, 0)).identity, 'owner', pg_get_userbyid(owner), 'followsTable', follows,
        'rights', case when acl is not null then ${explode('acl')} end,
        'columns', (select coalesce(json_agg(json_build_object('column', quote_ident(attname), 'rights', ${explode('attacl')}) order by attnum), '[]')
          from pg_attribute where classid = 'pg_class'::regclass and attrelid = object.oid and attnum > 0 and not attisdropped))
      order by kind, (pg_identify_object(classid, oid, 0)).identity), '[]') from object),
    'defaults', (select coalesce(json_agg(json_build_object('type', defaclobjtype, 'role', pg_get_userbyid(defaclrole),
        'rights', ${explode('defaclacl')}) order by defaclobjtype, defaclrole), '[]') from pg_default_acl where defaclnamespace = space.oid),
    'extensions', array(select extname from pg_extension where extnamespace = space.oid order by 1),
    'referrers', array(select distinct pg_describe_object(classid, objid, 0) from referrer order by 1),
    'references', array(select distinct pg_describe_object(classid, objid, 0) from reference
      where into_space <> quote_ident(nspname) and into_space in (
        select quote_ident(n.nspname) from pg_default_acl join pg_namespace n on n.oid = defaclnamespace, aclexplode(defaclacl) where grantee = (select oid from pg_roles where rolname = $2::text)) order by 1),
    'foreignRoutines', array(select distinct pg_describe_object(refclassid, refobjid, 0) from reference
      join pg_roles on pg_roles.oid = ${OWNER_OF_CODE}
      where into_space <> quote_ident(nspname) and pg_roles.oid <> current_user::regrole and not rolsuper order by 1),
    'otherOwners', array(select distinct pg_get_userbyid(role)::text from (select nspowner as role union select owner from object) owners
      where not pg_has_role(current_user, role, 'usage') and role <> 'pg_database_owner'::regrole order by 1),
    'creatorsInPublic', array(select distinct rolname::text from (select nspowner as role union select owner from object) owners
      join pg_roles on pg_roles.oid = role join pg_namespace p on p.nspname = 'public' and p.oid <> space.oid
      where role <> current_user::regrole and not rolsuper and rolname <> 'pg_database_owner'
        and has_schema_privilege(role, p.oid, 'create') order by 1),
    'rolesOfScope', array(select rolname::text from pg_roles where rolname <> $2 and pg_has_role($2::name, oid, 'member') order by 1),
    'isKnown', ${isKnown}, 'reader', current_user) as facts
  from space`

/** Statements are named: planning them takes longer than running them. */
const WITH_RECORDS = { name: 'tenantry adoption facts', text: facts(KNOWN) }
const WITHOUT_RECORDS = { name: 'tenantry adoption facts without records', text: facts('false') }

/** In a transaction. */
export async function pin(client: pg.ClientBase): Promise<Pinned> {
  const { rows } = await client.query<Pinned & pg.QueryResultRow>(PINNED)
  return pinnedBy(rows)
}

/** @param rows of PINNED */
export const pinnedBy = (rows: readonly { readonly hasRecords?: boolean }[] | undefined): Pinned => ({
  hasRecords: rows?.[0]?.hasRecords === true,
})

/** Returns undefined if the schema does not exist. In a transaction that is pinned. */
export async function readFacts(
  client: pg.ClientBase,
  schema: string,
  scopeRole: string,
  { hasRecords }: Pinned,
): Promise<SchemaFacts | undefined> {
  const { rows } = await client.query({
    ...(hasRecords ? WITH_RECORDS : WITHOUT_RECORDS),
    values: [schema, scopeRole],
  })
  return rows[0]?.facts
}
