/** Buffers complete copies, so that tests can import and examine them, and reads all catalog entries of a schema. */
import type pg from 'pg'
import type { CopyDescription, TableTotals, TenantCopy } from '../../../tenants/isolation/copy.ts'
import type { IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'

export interface BufferedCopy {
  readonly description: CopyDescription
  /** CSV by table. */
  readonly csv: ReadonlyMap<string, string>
  readonly totals: readonly TableTotals[]
}

export const never = (): AbortSignal => new AbortController().signal

export async function held(copy: TenantCopy): Promise<BufferedCopy> {
  const csv = new Map<string, string>()
  for await (const { table, csv: chunks } of copy.tables()) {
    const all: Buffer[] = []
    for await (const chunk of chunks) all.push(chunk)
    csv.set(table.name, Buffer.concat(all).toString())
  }
  return { description: copy.description, csv, totals: await copy.totals() }
}

export const exported = (driver: IsolationDriver, location: StorageLocation): Promise<BufferedCopy> =>
  driver.export(location, held, { signal: never() })

/** Bytes of a chunk: small chunks split rows at any byte. */
export function replayed({ description, csv, totals }: BufferedCopy, bytes = 65_536): TenantCopy {
  return {
    description,
    estimatedRows: undefined,
    async *tables() {
      for (const table of description.tables) {
        const whole = Buffer.from(csv.get(table.name) ?? '')
        yield { table, csv: chunksOf(whole, bytes) }
      }
    },
    totals: async () => totals,
  }
}

async function* chunksOf(whole: Buffer, bytes: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < whole.length; at += bytes) yield whole.subarray(at, at + bytes)
}

/** The catalog entries of a schema, one line each, with `@` for its name. Schemas with the same lines are equal. */
export async function catalogOf(client: Pick<pg.ClientBase, 'query'>, schema: string): Promise<string[]> {
  const lines: string[] = []
  for (const [what, text] of Object.entries(CATALOG)) {
    const { rows } = await client.query({
      text: text.replaceAll('$schema', '(select oid from n)'),
      values: [schema],
      rowMode: 'array',
    } as never)
    for (const row of rows as unknown as unknown[][]) lines.push(`${what}: ${JSON.stringify(row)}`)
  }
  const names = [
    schema,
    JSON.stringify(schema).slice(1, -1),
    JSON.stringify(`"${schema.replaceAll('"', '""')}"`).slice(1, -1),
  ]
  return lines
    .map((line) => names.reduceRight((text, name) => text.replaceAll(name, '@'), line))
    .map((line) => line.replaceAll(/(\w+_ConstraintTrigger(_[ac])?|pg_toast)_\d+/g, '$1'))
    .sort()
}

const N = `with n as (select oid from pg_namespace where nspname = $1),
  r as (select c.* from pg_class c where relnamespace = $schema)`

const CATALOG: Readonly<Record<string, string>> = {
  schema: `${N} select nspacl::text, obj_description(oid) from pg_namespace where oid = $schema`,
  defaults: `${N} select defaclobjtype, defaclacl::text from pg_default_acl where defaclnamespace = $schema`,
  relation: `${N} select relname, relkind, relpersistence, reloptions::text, relreplident, relispartition, relrowsecurity,
    relforcerowsecurity, relacl::text, pg_get_expr(relpartbound, oid), reltablespace, relhasindex, relhasrules, relhastriggers, relchecks,
    pg_get_userbyid(relowner), relispopulated, (select amname from pg_am where oid = relam) from r`,
  column: `${N} select relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attstattarget, attstorage,
    attcompression, attacl::text, attoptions::text, attcollation::regcollation, attislocal, attinhcount, attisdropped, atthasmissing,
    (select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = attrelid and adnum = attnum) from r join pg_attribute on attrelid = r.oid`,
  index: `${N} select relname, pg_get_indexdef(indexrelid), indisunique, indnullsnotdistinct, indisprimary, indisexclusion, indimmediate,
    indisclustered, indisvalid, indisready, indislive, indisreplident, indkey::text, indclass::text, indcollation::text, indoption::text
    from r join pg_index on indexrelid = r.oid`,
  constraint: `${N} select conrelid::regclass, contypid::regtype, conname, contype, pg_get_constraintdef(oid), condeferrable, condeferred, convalidated, conislocal,
    coninhcount, connoinherit, conindid::regclass, (select conname from pg_constraint p where p.oid = c.conparentid),
    conkey::text, confkey::text, to_jsonb(c) ->> 'conenforced', to_jsonb(c) ->> 'conperiod'
    from pg_constraint c where connamespace = $schema`,
  trigger: `${N} select tgrelid::regclass, tgname, tgfoid::regproc, tgtype, tgenabled, tgisinternal, tgdeferrable, tginitdeferred, tgargs::text,
    (select conname from pg_constraint where oid = tgconstraint), tgconstrrelid::regclass, tgconstrindid::regclass,
    case when not tgisinternal then pg_get_triggerdef(t.oid) end from pg_trigger t join r on r.oid = tgrelid`,
  sequence: `${N} select relname, seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle from r join pg_sequence on seqrelid = r.oid`,
  statistics: `${N} select pg_get_statisticsobjdef(oid), stxstattarget from pg_statistic_ext where stxnamespace = $schema`,
  policy: `${N} select polrelid::regclass, polname, polcmd, polpermissive, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid), polroles::regrole[]::text
    from pg_policy join r on r.oid = polrelid`,
  rule: `${N} select ev_class::regclass, rulename, ev_enabled, pg_get_ruledef(pg_rewrite.oid) from pg_rewrite join r on r.oid = ev_class`,
  function: `${N} select oid::regprocedure, pg_get_functiondef(oid), proacl::text from pg_proc where pronamespace = $schema and prokind in ('f', 'p')`,
  type: `${N} select typname, typtype, typnotnull, typdefault, typacl::text, (select string_agg(enumlabel, ',' order by enumsortorder) from pg_enum where enumtypid = t.oid)
    from pg_type t where typnamespace = $schema`,
  inherits: `${N} select inhrelid::regclass, inhparent::regclass, inhseqno, inhdetachpending from pg_inherits join r on r.oid = inhrelid`,
  comment: `${N} select pg_describe_object(classoid, objoid, objsubid), description from pg_description
    where (classoid = 'pg_class'::regclass and objoid in (select oid from r))
      or (classoid = 'pg_constraint'::regclass and objoid in (select oid from pg_constraint where connamespace = $schema))
      or (classoid = 'pg_trigger'::regclass and objoid in (select t.oid from pg_trigger t join r on r.oid = tgrelid))`,
  depends: `${N} select pg_describe_object(classid, objid, objsubid), pg_describe_object(refclassid, refobjid, refobjsubid), deptype from pg_depend
    where (refclassid = 'pg_class'::regclass and refobjid in (select oid from r))
      or (classid = 'pg_class'::regclass and objid in (select oid from r))
      or (refclassid = 'pg_constraint'::regclass and refobjid in (select oid from pg_constraint where connamespace = $schema))
      or (classid = 'pg_constraint'::regclass and objid in (select oid from pg_constraint where connamespace = $schema))`,
}

/** The same copy with other rows of one table or without it, like a forged copy. */
export function changed(copy: BufferedCopy, name: string, csv: string | undefined): BufferedCopy {
  const { description, totals } = copy
  const all = new Map(copy.csv)
  if (csv === undefined) all.delete(name)
  else all.set(name, csv)
  const isThere = (one: { readonly name: string }) => all.has(one.name)
  return {
    description: { ...description, tables: description.tables.filter(isThere) },
    csv: all,
    totals: totals
      .filter(isThere)
      .map((one) =>
        one.name === name && csv !== undefined ? { ...one, rows: csv.trimEnd().split('\n').length - 1 } : one,
      ),
  }
}
