/**
 * Reads the host's migrations, which run in every tenant's storage: a folder of `NNNN_name.sql` with the sections `--
 * up` and `-- down`, or of `NNNN_name.ts` that exports `up(db)` and `down(db)` on Kysely.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Kysely } from 'kysely'
import { InvalidConfiguration } from '../../kernel/base/errors.ts'

type Step = (db: Kysely<any>) => Promise<void>

export interface TenantMigration {
  /** `0001_notes` */
  readonly name: string
  readonly checksum: string
  /** SQL, or a function of the tenant's database. */
  readonly up: string | Step
  /** Absent: the migration cannot be rolled back. */
  readonly down?: string | Step
}

const FILE_NAME = /^(\d{4,}_[A-Za-z0-9_-]+)\.(sql|ts|js)$/

/**
 * Reads a folder of migrations. Throws for a file with an invalid name or content.
 *
 * @example
 *   const tenancy = await createTenancy({ ...config, migrations: await readTenantMigrations('./migrations') })
 */
export async function readTenantMigrations(folder: string): Promise<TenantMigration[]> {
  const files = (await namesIn(folder)).filter((file) => !file.startsWith('.') && !file.endsWith('.d.ts'))
  const migrations = await Promise.all(files.map((file) => readMigration(resolve(folder), file)))
  const numbers = migrations.map(numberOf)
  const repeated = numbers.find((number, index) => numbers.indexOf(number) !== index)
  if (repeated !== undefined)
    throw InvalidConfiguration(`Two migrations in ${resolve(folder)} have the number ${repeated}. Rename one of them.`)
  return migrations.sort((one, other) => numberOf(one) - numberOf(other))
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (!['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    const path = resolve(folder)
    throw InvalidConfiguration(
      `The folder of migrations ${path} was not found. Create it, or correct \`migrations\`: a relative path starts at the working directory.`,
      { cause: error },
    )
  }
}

const numberOf = ({ name }: TenantMigration): number => Number.parseInt(name, 10)

async function readMigration(folder: string, file: string): Promise<TenantMigration> {
  const [, name, kind] = FILE_NAME.exec(file) ?? []
  if (!name)
    throw InvalidConfiguration(
      `Migration ${join(folder, file)} must have a name such as 0001_notes.sql or 0001_notes.ts.`,
    )
  const path = join(folder, file)
  const text = await readFile(path, 'utf8')
  const checksum = createHash('sha256').update(text).digest('hex')
  if (kind === 'sql') return { name, checksum, ...sections(text, path) }
  const { up, down } = await import(pathToFileURL(path).href)
  if (typeof up !== 'function') throw InvalidConfiguration(`Migration ${path} must export a function up(db).`)
  return { name, checksum, up, down }
}

function sections(text: string, path: string): { up: string; down?: string } {
  const [before = '', ...parts] = text.split(/^--\s*(up|down)\s*$/im)
  const section = (wanted: string) => {
    const index = parts.findIndex((part, at) => at % 2 === 0 && part.toLowerCase() === wanted)
    return index < 0 ? undefined : parts[index + 1]?.trim()
  }
  const up = section('up')
  if (before.replace(/--.*$/gm, '').trim() || !up)
    throw InvalidConfiguration(
      `Migration ${path} must start with the line \`-- up\`, followed by its statements. A section \`-- down\` is optional.`,
    )
  return { up, down: section('down') || undefined }
}
