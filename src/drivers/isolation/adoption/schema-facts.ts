/**
 * Reads the owners and rights of the objects of one existing schema from the catalog.
 *
 * Each change of a schema makes PostgreSQL plan all queries again, which takes longer than running them. So the objects
 * are named in short statements of one text, only for the kinds that the schema has, and rights are read as text.
 */
import pg from 'pg'
import { hasLinksText, linksOf, type SchemaLinks } from '../catalog/schema-links.ts'
import { membersOf, membersText, oidsOf, type SchemaMembers } from '../catalog/schema-members.ts'
import { type Results, runPinned } from '../transactions/pinned-text.ts'
import { parseRights, type Right } from './rights.ts'

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

export interface OwnFacts {
  readonly owner: string
  readonly rights: readonly Right[]
  readonly objects: readonly ObjectFacts[]
  readonly defaults: readonly DefaultRights[]
  /** Owners of these objects whose rights the role of `url` does not have. */
  readonly otherOwners: readonly string[]
  /** Whether the record of an adoption, or of a migration, has the name of the schema. */
  readonly isKnown: boolean
  /** The role of `url`, which reads them. */
  readonly reader: string
}

export type SchemaFacts = OwnFacts & SchemaLinks

/** Owner whose members are the owners of the present database. */
const OWNER_OF_DATABASE = 'pg_database_owner'

const ownership = (owner: string): string =>
  `pg_get_userbyid(${owner}) as owner, pg_has_role(current_user, ${owner}, 'usage') as "mayTake"`
const identity = (classid: string, objid: string): string =>
  `(pg_identify_object(${classid}, ${objid}, 0)).identity as name`

const OBJECTS: Readonly<Record<string, (oids: string) => string>> = {
  pg_class: (oids) => `
    select oid, case relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' when 'f' then 'foreign table'
        else 'table' end as kind, ${identity("'pg_class'::regclass", 'oid')}, ${ownership('relowner')},
      coalesce(relacl, acldefault(case relkind when 'S' then 's'::"char" else 'r' end, relowner))::text[] as rights,
      relkind = 'S' and exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = pg_class.oid
          and d.refclassid = 'pg_class'::regclass and d.refobjsubid > 0 and d.deptype in ('a', 'i')) as "followsTable"
    from pg_class where oid = any(${oids}) and relkind in ('r', 'p', 'v', 'm', 'f', 'S')`,
  pg_proc: (oids) => `
    select 'routine' as kind, ${identity("'pg_proc'::regclass", 'oid')}, ${ownership('proowner')},
      coalesce(proacl, acldefault('f', proowner))::text[] as rights from pg_proc where oid = any(${oids})`,
  pg_type: (oids) => `
    select 'type' as kind, ${identity("'pg_type'::regclass", 'oid')}, ${ownership('typowner')},
      coalesce(typacl, acldefault('T', typowner))::text[] as rights
    from pg_type where oid = any(${oids}) and typtype in ('b', 'c', 'd', 'e', 'r') and typelem = 0
      and (typtype <> 'c' or (select relkind from pg_class where pg_class.oid = typrelid) = 'c')`,
}
/** Kinds of objects without rights. */
const OTHERS = [
  'pg_collation',
  'pg_conversion',
  'pg_operator',
  'pg_opclass',
  'pg_opfamily',
  'pg_ts_config',
  'pg_ts_dict',
  'pg_statistic_ext',
]
const other = (catalog: string, oids: string): string => `
  select (pg_identify_object('${catalog}'::regclass, member.oid, 0)).type as kind, ${identity(`'${catalog}'::regclass`, 'member.oid')},
    ${ownership('coalesce(refobjid, 10)')}, null::text[] as rights
  from unnest(${oids}) as member (oid) left join pg_shdepend o on o.dbid = (select oid from pg_database where datname = current_database())
    and o.classid = '${catalog}'::regclass and o.objid = member.oid and o.deptype = 'o'`

/** @param withRecords whether the database has the tables of Tenantry's records: the placement's own does */
export function factsTexts(members: SchemaMembers, schema: string, withRecords: boolean): string[] {
  const known = (table: string) => `exists (select from tenantry.${table} where locator = ${pg.escapeLiteral(schema)})`
  const objects = [...members.objects.keys()].flatMap((catalog) => {
    const oids = oidsOf(members, catalog)
    const text = OBJECTS[catalog]?.(oids) ?? (OTHERS.includes(catalog) ? other(catalog, oids) : undefined)
    return text === undefined ? [] : [text]
  })
  return [
    `select ${ownership('nspowner')}, coalesce(nspacl, acldefault('n', nspowner))::text[] as rights, current_user::text as reader,
       ${withRecords ? `${known('migrations')} or ${known('adoptions')}` : 'false'} as "isKnown"
     from pg_namespace where oid = ${members.space}`,
    `select defaclobjtype::text as type, pg_get_userbyid(defaclrole) as role, defaclacl::text[] as rights
     from pg_default_acl where defaclnamespace = ${members.space} order by 1, 2`,
    `select attrelid, quote_ident(attname) as column, attacl::text[] as rights from pg_attribute
     where attrelid = any(${oidsOf(members, 'pg_class')}) and attnum > 0 and not attisdropped order by attrelid, attnum`,
    ...objects,
  ]
}

/** Undefined if the schema was dropped. @param results those of `factsTexts` */
export function factsOf([space, defaults, columns, ...objects]: Results): OwnFacts | undefined {
  const found = space?.rows[0]
  if (!found) return undefined
  const columnsOf = Map.groupBy(columns?.rows ?? [], ({ attrelid }) => attrelid)
  const all = objects.flatMap(({ rows }) => rows)
  const others = [found, ...all].filter(({ mayTake, owner }) => !mayTake && owner !== OWNER_OF_DATABASE)
  return {
    owner: found.owner,
    rights: parseRights(found.rights),
    objects: all
      .map(({ oid, kind, name, owner, followsTable = false, rights }) => ({
        kind,
        name,
        owner,
        followsTable,
        rights: rights && parseRights(rights),
        columns: (columnsOf.get(oid) ?? []).map((one) => ({
          column: one.column,
          rights: parseRights(one.rights ?? []),
        })),
      }))
      .sort((a, b) => (`${a.kind} ${a.name}` < `${b.kind} ${b.name}` ? -1 : 1)),
    defaults: (defaults?.rows ?? []).map(({ type, role, rights }) => ({ type, role, rights: parseRights(rights) })),
    otherOwners: [...new Set(others.map(({ owner }) => owner))].sort(),
    isKnown: found.isKnown,
    reader: found.reader,
  }
}

export interface ReadFacts {
  readonly members: SchemaMembers
  readonly own: OwnFacts
}

/** Returns undefined if the schema does not exist. In a transaction, which is pinned afterwards. */
export async function readOwnFacts(
  client: pg.ClientBase,
  schema: string,
  withRecords: boolean,
  rows?: readonly object[],
): Promise<ReadFacts | undefined> {
  const members = membersOf(rows ?? (await runPinned(client, membersText(schema)))[0]?.rows)
  const own = members && factsOf(await runPinned(client, ...factsTexts(members, schema, withRecords)))
  return own && { members, own }
}

/** The same with all links of the schema. */
export async function readFacts(
  client: pg.ClientBase,
  schema: string,
  scopeRole: string,
  { withRecords = false }: { readonly withRecords?: boolean } = {},
): Promise<(SchemaFacts & Pick<ReadFacts, 'members'>) | undefined> {
  const found = await readOwnFacts(client, schema, withRecords)
  return (
    found && { ...found.own, ...(await readLinks(client, found.members, schema, scopeRole)), members: found.members }
  )
}

/** In a transaction, which is pinned afterwards. */
export async function readLinks(
  client: pg.ClientBase,
  members: SchemaMembers,
  schema: string,
  scopeRole: string,
): Promise<SchemaLinks> {
  const [result] = await runPinned(client, hasLinksText(members, schema, scopeRole))
  return linksOf(client, members, schema, scopeRole, result?.rows)
}

/** Owners, other than the role of `url` and superusers, that may create objects in the schema `public`. */
export async function creatorsInPublic(client: pg.ClientBase, schema: string, { owner, objects }: OwnFacts) {
  const { rows } = await client.query<{ role: string }>(
    `select rolname as role from pg_roles join pg_namespace p on nspname = 'public' and nspname <> $1
     where rolname = any($2) and rolname not in (current_user, 'pg_database_owner') and not rolsuper
       and has_schema_privilege(pg_roles.oid, p.oid, 'create') order by 1`,
    [schema, [owner, ...objects.map((one) => one.owner)]],
  )
  return rows.map(({ role }) => role)
}
