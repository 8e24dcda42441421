/**
 * Describes the column that names the tenant of each row in shared tables. Its value, as text, is the tenant's id.
 *
 * Text that is not the canonical form of a value (`042`, a UUID without hyphens) is no tenant: otherwise two tenants
 * would have the same rows.
 */
import pg from 'pg'

export const COLUMN_TYPES = ['text', 'uuid', 'integer', 'bigint'] as const
export type ColumnType = (typeof COLUMN_TYPES)[number]

export interface TenantColumn {
  readonly name: string
  readonly type: ColumnType
  /**
   * Whether the settings of the driver name it, for tables of a former application. Their keys need not begin with the
   * column, so the tables cannot have rows of two locations of one tenant.
   */
  readonly isGiven: boolean
}

/** The column of tables that were made for Tenantry. */
export const TENANT_ID: TenantColumn = { name: 'tenant_id', type: 'text', isGiven: false }

const PG_TYPES: Readonly<Record<ColumnType, string>> = { text: 'text', uuid: 'uuid', integer: 'int4', bigint: 'int8' }

/** The name as SQL. */
export const columnName = ({ name }: Pick<TenantColumn, 'name'>): string =>
  name === TENANT_ID.name ? name : pg.escapeIdentifier(name)

/** The required default, as the catalog spells it. */
export const columnDefault = ({ type }: TenantColumn): string =>
  type === 'text' ? 'tenantry.current_tenant()' : `(tenantry.current_tenant())::${type}`

/** The type as SQL. */
export const columnType = ({ type }: Pick<TenantColumn, 'type'>): string => `pg_catalog.${PG_TYPES[type]}`

/** A value as SQL. */
export const valueAs = (column: Pick<TenantColumn, 'type'>, id: string): string =>
  `${pg.escapeLiteral(id)}::${columnType(column)}`

/** An expression of a setting that is null without a tenant. */
export const settingAs = ({ type }: TenantColumn, setting: string): string =>
  type === 'text' ? `current_setting('${setting}', true)` : `nullif(current_setting('${setting}', true), '')::${type}`

/** The function that returns the tenant in the type of the column, or raises an error. */
export const admittedIn = ({ type }: TenantColumn): string =>
  type === 'text' ? 'tenantry.admitted_tenant()' : `tenantry.admitted_tenant_${type}()`

/** Creates that function. Empty for text. */
export const admittedFunction = ({ type }: TenantColumn, role: string): string => {
  if (type === 'text') return ''
  const name = columnType({ type })
  return `create or replace function ${admittedIn({ type } as TenantColumn)} returns ${name} stable parallel safe language plpgsql as $function$
    declare
      this text := tenantry.admitted_tenant();
      value ${name} := this::${name};
    begin
      if value::pg_catalog.text operator(pg_catalog.<>) this then
        raise insufficient_privilege using message = 'the tenant id is not the text of a value of the tenant column';
      end if;
      return value;
    end $function$;
  grant execute on function ${admittedIn({ type } as TenantColumn)} to ${role};`
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const MAX: Readonly<Record<'integer' | 'bigint', bigint>> = { integer: 2n ** 31n - 1n, bigint: 2n ** 63n - 1n }

/** Whether the column can have this id as its value. */
export function isColumnValue({ type }: TenantColumn, id: string): boolean {
  if (type === 'text') return true
  if (type === 'uuid') return UUID.test(id)
  return /^(0|[1-9]\d*)$/.test(id) && BigInt(id) <= MAX[type]
}
