/**
 * `tenant:import`: imports an SQL file with data into a tenant's tables, or with tables into empty storage, in one
 * transaction, from a path or standard input.
 */
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { Input, Terminal } from '../../kernel/api/commands.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { number, size } from '../../kernel/base/format.ts'
import { meter, type Pace, paceText } from '../../kernel/base/progress-rate.ts'
import { command } from '../part.ts'
import { type ImportOptions, type ImportTotals, importSql } from '../sql-import/import.ts'
import type { TableImportTotals } from '../sql-import/tables/tables-run.ts'
import type { Tenants } from '../tenants.ts'

const READ_AT_ONCE = 256 * 1024

export const importCommand = command({
  name: 'tenant:import',
  changesStorage: true,
  summary: "Import an SQL file with data, or with tables and data, into a tenant's storage, in one transaction",
  arguments: [{ name: 'id', summary: 'id of the tenant', required: true }],
  options: [
    { flags: '--file <path>', summary: 'a file with statements; default and -: standard input' },
    { flags: '--dry-run', summary: 'run everything, and roll it back' },
    { flags: '--with-tables', summary: 'the file also contains tables: they replace the empty tables of the tenant' },
    { flags: '--baseline <name>', summary: 'with --with-tables: the last migration whose tables the file contains' },
  ],
  run: async (tenants, { args, options, terminal, signal }) => {
    if (options.baseline && !options.withTables) {
      throw invalid([{ path: 'baseline', message: 'Only an import with --with-tables has a baseline.' }])
    }
    const { id } = options.withTables ? await tenants.get(args.id ?? '') : await tenants.handle(args.id ?? '')
    const { stream, sizeBytes } = await opened(options.file, terminal.input)
    const look = meter()
    const stop = () => stream.destroy()
    signal.addEventListener('abort', stop, { once: true })
    try {
      const { dryRun: isDryRun, baseline } = options
      const onProgress = (totals: Progress) =>
        terminal.progress(words(totals, sizeBytes, look(totals.bytes, sizeBytes)))
      const totals = options.withTables
        ? withNotes(await tenants.tableImports.run(id, stream, { baseline, signal, isDryRun, onProgress }), terminal)
        : await rowsOnly(tenants, id, stream, { signal, isDryRun, onProgress }, terminal)
      if (isDryRun) terminal.say('dry run: everything was rolled back')
      terminal.record({ id, ...totals })
    } catch (error) {
      if (error === signal.reason) terminal.say('everything was rolled back; nothing was imported')
      throw error
    } finally {
      signal.removeEventListener('abort', stop)
      stream.destroy()
    }
  },
})

type Progress = Pick<ImportTotals, 'bytes' | 'statements'>

async function rowsOnly(
  tenants: Tenants,
  id: string,
  stream: Readable,
  options: Omit<ImportOptions, 'engine'>,
  terminal: Pick<Terminal, 'say'>,
) {
  const { isolation } = await tenants.get(id)
  const { engine } = tenants.storage.driver(isolation).capabilities
  const { passedOver, ...totals } = await importSql(tenants.handles.source(id), stream, { engine, ...options })
  if (passedOver > 0) terminal.say(`ignored settings of the dump: ${passedOver}`)
  return totals
}

function withNotes({ skipped, differences, ...totals }: TableImportTotals, terminal: Pick<Terminal, 'isJson' | 'say'>) {
  for (const difference of terminal.isJson ? [] : differences) {
    terminal.say(`difference from the tables of the migrations: ${difference}`)
  }
  if (totals.unchangedTexts > 0) {
    terminal.say(`strings that name the schema of the dump and were not changed: ${number(totals.unchangedTexts)}`)
  }
  const counts = Object.entries(skipped).map(([what, count]) => `${what}: ${number(count)}`)
  return terminal.isJson
    ? { ...totals, skipped, differences }
    : { ...totals, skipped: counts.join(', ') || 'none', differences: differences.length }
}

interface Opened {
  readonly stream: Readable
  /** Undefined if the size is unknown before the end. */
  readonly sizeBytes: number | undefined
}

async function opened(path: string | undefined, input: Input): Promise<Opened> {
  if (path === undefined && input.isTTY) throw rejected('Give a file with --file, or pipe one in.')
  if (path === undefined || path === '-') return { stream: input, sizeBytes: undefined }
  const file = await open(path).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' ? rejected(`File ${path} not found.`) : error
  })
  const stats = await file.stat()
  if (stats.isDirectory()) {
    await file.close()
    throw rejected(`${path} is a folder.`)
  }
  const stream = file.createReadStream({ highWaterMark: READ_AT_ONCE })
  return { stream, sizeBytes: stats.isFile() ? stats.size : undefined }
}

const rejected = (message: string) => invalid([{ path: 'file', message }])

function words({ bytes, statements }: Progress, sizeBytes: number | undefined, pace: Pace): string {
  const done = sizeBytes ? `${Math.floor((100 * bytes) / sizeBytes)} % of ${size(sizeBytes)}` : size(bytes)
  return `${done}, ${number(statements)} statements${paceText(pace, size)}`
}
