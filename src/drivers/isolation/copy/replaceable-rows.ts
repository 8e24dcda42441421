/**
 * Checks of shared tables whose keys need not begin with the tenant column, before rows of one tenant are replaced there:
 * the replacement must not change rows of other tenants, or meet their keys.
 */
import pg from 'pg'
import { BackupIncompatible, type CopyDescription } from '../../../tenants/isolation/copy.ts'
import { isTenants, qualified, relationsOf } from '../catalog/tables.ts'
import { withoutForce } from '../row-security/apply.ts'
import type { Shared } from '../row-security/shared-tables.ts'
import { queryPinned } from '../row-security/sql.ts'
import { columnName, valueAs } from '../row-security/tenant-column.ts'
import { asideSchemaOf } from './aside-schema.ts'
import { from } from './staging-schema.ts'

/** The number of the operator that decides whether two values are equal, in each class of a B-tree index. */
const EQUAL = 3

interface Key {
  readonly table: string
  readonly key: string
  readonly columns: readonly { readonly name: string; readonly operator: string }[]
}

/** Numbers of locked rows of the tenant, by table. */
export type LockedRows = ReadonlyMap<string, number>

/**
 * Throws `E_BACKUP_INCOMPATIBLE` if rows of another tenant, or of other tables, may refer to rows of the tenant.
 * @param isLocked whether the referenced rows are locked first: later references to them wait for the end of the
 * transaction. Rows that are committed later are not locked.
 */
export async function assertNoReferences(
  client: pg.ClientBase,
  { schema, stored, column, tenant }: Shared,
  isLocked: boolean,
): Promise<LockedRows> {
  const name = pg.escapeLiteral(column.name)
  const [{ rows }] = (await queryPinned(
    client,
    `with ${relationsOf(schema)}
    select conname as name, conrelid::regclass::text as table, confrelid::regclass::text as target,
      case f.relkind when 'p' then '' else 'only ' end || conrelid::regclass as "from",
      case p.relkind when 'p' then '' else 'only ' end || confrelid::regclass as "to",
      coalesce((select r.relname from pg_partition_ancestors(p.oid) with ordinality as a (relid, level)
        join relation r on r.oid = a.relid order by level desc limit 1), p.relname) as root,
      own.attnum is null or not is_shared as "isOutside",
      (select string_agg(format('p.%I operator(%I.%s) f.%I', there.attname, nspname, oprname, here.attname), ' and ')
        from generate_subscripts(conkey, 1) as position
        join pg_attribute here on here.attrelid = conrelid and here.attnum = conkey[position]
        join pg_attribute there on there.attrelid = confrelid and there.attnum = confkey[position]
        join pg_operator o on o.oid = conpfeqop[position] join pg_namespace n on n.oid = oprnamespace) as match
    from relation p join pg_attribute theirs on theirs.attrelid = p.oid and theirs.attname = ${name}
    join pg_constraint k on confrelid = p.oid join pg_class f on f.oid = conrelid
    left join pg_attribute own on own.attrelid = conrelid and own.attname = ${name}
    cross join lateral (select conrelid in (select oid from relation) as is_shared) as source
    where contype = 'f' and conparentid = 0 and not (is_shared and exists (
      select from unnest(conkey, confkey) as pair (here, there) where here = own.attnum and there = theirs.attnum)) order by k.oid`,
  )) as [pg.QueryResult]
  const outside = rows.find(({ isOutside }) => isOutside)
  if (outside) {
    throw BackupIncompatible(
      `The foreign key "${outside.name}" of ${outside.table} refers to rows of tenants in ${outside.target}, and ${outside.table} is not part of ` +
        'a copy. Drop it, or move its table into the schema. Nothing was changed.',
    )
  }
  const value = valueAs(column, tenant)
  const own = columnName(column)
  const locked = new Map<string, number>()
  for (const key of rows) {
    const { rows: found } = await withoutForce(
      client,
      schema,
      async () => {
        const table = stored.tables.find(({ name }) => name === key.root)
        if (isLocked && table && !locked.has(table.name)) {
          const { rows: held } = await client.query(
            `select count(*)::float8 as rows from (select from ${from(table, schema)} where ${own} = ${value} for update) as held`,
          )
          locked.set(table.name, held[0].rows)
        }
        return client.query(`select exists (
          select from ${key.to} p join ${key.from} f on ${key.match} where p.${own} = ${value} and f.${own} <> ${value}) as any`)
      },
      column,
    )
    if (!found[0].any) continue
    throw BackupIncompatible(
      `Rows of another tenant in ${key.table} refer to rows of the tenant by the foreign key "${key.name}". Correct these rows first. ` +
        'Nothing was changed.',
    )
  }
  return locked
}

/** Throws `E_BACKUP_INCOMPATIBLE` if the former application has written rows with the id of a tenant that has none here. */
export async function assertNoRows(client: pg.ClientBase, { schema, stored, column, tenant }: Shared): Promise<void> {
  for (const table of stored.tables.filter(isTenants)) {
    const own = `${columnName(column)} = ${valueAs(column, tenant)}`
    const { rows } = await client.query(`select exists (select from ${from(table, schema)} where ${own}) as any`)
    if (!rows[0].any) continue
    throw BackupIncompatible(
      `The table "${table.name}" already has rows with the id of the tenant "${tenant}". Delete them, or use another id. Nothing was changed.`,
    )
  }
}

/**
 * Throws `E_BACKUP_INCOMPATIBLE` if rows of another tenant have values of the copy in a key without the tenant column. The
 * exchange of the rows would meet them, too: this check is made while the tenant is still in use.
 */
export async function assertKeysFree(
  client: pg.ClientBase,
  { schema, stored, column, tenant, location }: Shared & { readonly location: Parameters<typeof asideSchemaOf>[0] },
  { tables }: CopyDescription,
): Promise<void> {
  const { rows } = await client.query(
    `with ${relationsOf(schema)}
    select relname as table, (select relname from pg_catalog.pg_class where oid = indexrelid) as key,
      array(select pg_catalog.json_build_object('name', attname, 'operator', pg_catalog.format('operator(%I.%s)', nspname, oprname))
        from pg_catalog.generate_subscripts(indclass, 1) as position
        join pg_catalog.pg_attribute on attrelid = indrelid and attnum = indkey[position]
        join pg_catalog.pg_opclass c on c.oid = indclass[position]
        join pg_catalog.pg_amop on amopfamily = opcfamily and amoplefttype = opcintype and amoprighttype = opcintype and amopstrategy = ${EQUAL}
        join pg_catalog.pg_operator o on o.oid = amopopr join pg_catalog.pg_namespace n on n.oid = oprnamespace
        order by position) as columns
    from relation join pg_catalog.pg_index on indrelid = relation.oid
    where indisunique and indisvalid and not indisexclusion and indpred is null and indexprs is null order by indexrelid`,
  )
  for (const { table: name, key, columns } of rows as Key[]) {
    const table = stored.tables.find((one) => one.name === name)
    const copied = tables.find((one) => one.name === name)?.columns.map((one) => one.name)
    const isComparable = columns.every(
      (one) => copied?.includes(one.name) && !table?.columns.some((other) => other.name === one.name && other.ownType),
    )
    if (!table || !isComparable || columns.some((one) => one.name === column.name)) continue
    const match = columns
      .map((one) => [pg.escapeIdentifier(one.name), one.operator])
      .map(([value, operator]) => `s.${value} ${operator} c.${value}`)
      .join(' and ')
    const { rows: found } = await withoutForce(
      client,
      schema,
      () =>
        client.query(`select exists (select from ${qualified(asideSchemaOf(location), name)} c
          join ${from(table, schema)} s on ${match} where s.${columnName(column)} <> ${valueAs(column, tenant)}) as any`),
      column,
    )
    if (!found[0].any) continue
    throw BackupIncompatible(
      `Another tenant has values of the copy in the key "${key}" of the table "${name}", which does not contain "${column.name}". Nothing was changed.`,
    )
  }
}
