/** `tenant:import`: imports an SQL file with data into a tenant's tables, in one transaction, from a path or standard input. */
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import type { Input } from '../../kernel/api/commands.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { number, size } from '../../kernel/base/format.ts'
import { meter, type Pace, paceText } from '../../kernel/base/progress-rate.ts'
import { command } from '../part.ts'
import { type ImportTotals, importSql } from '../sql-import/import.ts'

const READ_AT_ONCE = 256 * 1024

export const importCommand = command({
  name: 'tenant:import',
  summary: "Import an SQL file with data into a tenant's tables, in one transaction",
  arguments: [{ name: 'id', summary: 'id of the tenant', required: true }],
  options: [
    { flags: '--file <path>', summary: 'a file with statements; default and -: standard input' },
    { flags: '--dry-run', summary: 'run everything, and roll it back' },
  ],
  run: async (tenants, { args, options, terminal, signal }) => {
    const handle = await tenants.handle(args.id ?? '')
    const { isolation } = await tenants.get(handle.id)
    const { engine } = tenants.storage.driver(isolation).capabilities
    const { stream, sizeBytes } = await opened(options.file, terminal.input)
    const look = meter()
    const stop = () => stream.destroy()
    signal.addEventListener('abort', stop, { once: true })
    try {
      const { passedOver, ...totals } = await importSql(tenants.handles.source(handle.id), stream, {
        engine,
        signal,
        isDryRun: options.dryRun,
        onProgress: (totals) => terminal.progress(words(totals, sizeBytes, look(totals.bytes, sizeBytes))),
      })
      if (passedOver > 0) terminal.say(`ignored settings of the dump: ${passedOver}`)
      if (options.dryRun) terminal.say('dry run: everything was rolled back')
      terminal.record({ id: handle.id, ...totals })
    } catch (error) {
      if (error === signal.reason) terminal.say('everything was rolled back; nothing was imported')
      throw error
    } finally {
      signal.removeEventListener('abort', stop)
      stream.destroy()
    }
  },
})

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

function words({ bytes, statements }: ImportTotals, sizeBytes: number | undefined, pace: Pace): string {
  const done = sizeBytes ? `${Math.floor((100 * bytes) / sizeBytes)} % of ${size(sizeBytes)}` : size(bytes)
  return `${done}, ${number(statements)} statements${paceText(pace, size)}`
}
