/**
 * Finds objects that purged tenants left on a server: schemas, databases, roles, default rights, and rows about them.
 */
import pg from 'pg'

/** Queries for the names of all objects of a kind. */
const KINDS: Readonly<Record<string, string>> = {
  schema: `select nspname as name from pg_namespace where nspname !~ '^pg_(toast_)?temp_'`,
  database: 'select datname as name from pg_database',
  role: 'select rolname as name from pg_roles',
  'default right': 'select format($$%s in %s$$, defaclobjtype, defaclnamespace) as name from pg_default_acl',
  'migration record': 'select locator as name from tenantry.migrations',
  domain: 'select domain as name from multitenancy.tenant_domains',
  'migration item': 'select storage as name from multitenancy.migration_items where tenant_id is not null',
  'tenant that was not purged': 'select id as name from multitenancy.tenants where purged_at is null',
  'tombstone with data': `select id as name from multitenancy.tenants
    where name <> '' or metadata <> '{}' or domains <> '{}' or failure is not null`,
}

export class Left {
  readonly #url: string
  readonly #before: ReadonlyMap<string, ReadonlySet<string>>

  /** Records the objects before the first tenant. */
  static async before(url: string): Promise<Left> {
    return new Left(url, await everything(url))
  }

  private constructor(url: string, before: ReadonlyMap<string, ReadonlySet<string>>) {
    this.#url = url
    this.#before = before
  }

  /** Lists present objects that did not exist before. */
  async found(): Promise<string[]> {
    const now = await everything(this.#url)
    return [...now].flatMap(([kind, names]) =>
      [...names].filter((name) => !this.#before.get(kind)?.has(name)).map((name) => `left: ${kind} ${name}`),
    )
  }
}

async function everything(url: string): Promise<Map<string, Set<string>>> {
  const client = new pg.Client({ connectionString: url, application_name: 'scale inventory' })
  await client.connect()
  try {
    const all = new Map<string, Set<string>>()
    for (const [kind, question] of Object.entries(KINDS)) {
      const { rows } = await client.query<{ name: string }>(question)
      all.set(kind, new Set(rows.map(({ name }) => name)))
    }
    return all
  } finally {
    await client.end()
  }
}
