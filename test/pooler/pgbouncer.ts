/**
 * Starts PgBouncer; by default in transaction mode with one connection to each database, so that all transactions share a session.
 * As root it runs as the system user `nobody`.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programPath } from '../setup/not-run.ts'
import { freePort } from '../support/free-port.ts'

/** Another program may take the port before PgBouncer listens on it. */
const ATTEMPTS = 5

export interface PgBouncer {
  /** URL of the same login and database through the pooler. */
  through(url: string): string
  stop(): Promise<void>
}

interface Pooling {
  /** Default: `transaction`. */
  readonly mode?: 'session' | 'transaction' | 'statement'
  /** Connections to each database. Default: 1. */
  readonly size?: number
  /** Whether transactions take the connections in rotation. Default: the last used one. */
  readonly isRotating?: boolean
}

/** @param urls permitted logins, with their passwords */
export async function startPgBouncer(
  serverUrl: string,
  urls: readonly string[],
  pooling: Pooling = {},
): Promise<PgBouncer> {
  const program = programPath('pgbouncer')
  if (!program) throw new Error('pgbouncer is not installed')
  const directory = mkdtempSync(join(tmpdir(), 'tenantry-pgbouncer-'))
  const user = process.getuid?.() === 0 ? systemUser() : undefined
  for (let attempt = 1; ; attempt++) {
    const port = await freePort()
    const files = writeFiles(directory, port, new URL(serverUrl), urls, pooling)
    if (user) for (const path of [directory, ...files]) chownSync(path, user.uid, user.gid)
    const child = spawn(program, [files[0] ?? ''], { ...user, cwd: '/', stdio: ['ignore', 'ignore', 'pipe'] })
    const output = await started(child)
    if (output === undefined) {
      const dismiss = endWithThisProcess(child.pid ?? 0)
      return {
        through(url) {
          const changed = new URL(url)
          changed.host = `127.0.0.1:${port}`
          return changed.href
        },
        async stop() {
          const gone = once(child, 'exit')
          child.kill('SIGTERM')
          await gone
          dismiss()
          rmSync(directory, { recursive: true, force: true })
        },
      }
    }
    if (attempt === ATTEMPTS) throw new Error(`pgbouncer did not start:\n${output}`)
  }
}

function writeFiles(
  directory: string,
  port: number,
  server: URL,
  urls: readonly string[],
  { mode = 'transaction', size = 1, isRotating = false }: Pooling,
): string[] {
  const [settings, logins] = [join(directory, 'pgbouncer.ini'), join(directory, 'userlist.txt')]
  const text = `
[databases]
* = host=${server.hostname} port=${server.port || 5432}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = plain
auth_file = ${logins}
pool_mode = ${mode}
default_pool_size = ${size}
server_round_robin = ${isRotating ? 1 : 0}
reserve_pool_size = 0
max_client_conn = 200
server_login_retry = 0
query_wait_timeout = 5
ignore_startup_parameters = extra_float_digits
`
  const quoted = (part: string) => `"${decodeURIComponent(part).replaceAll('"', '""')}"`
  const lines = urls
    .map((url) => new URL(url))
    .map(({ username, password }) => `${quoted(username)} ${quoted(password)}`)
  writeFileSync(settings, text, { mode: 0o600 })
  writeFileSync(logins, `${lines.join('\n')}\n`, { mode: 0o600 })
  return [settings, logins]
}

/** Output of a process that exited; undefined if it is ready. */
async function started(child: ChildProcess): Promise<string | undefined> {
  let output = ''
  const gone = once(child, 'exit')
  const up = new Promise<'up'>((resolve) => {
    child.stderr?.on('data', (text) => {
      output += text
      if (output.includes('process up')) resolve('up')
    })
  })
  return (await Promise.race([up, gone])) === 'up' ? undefined : output
}

function systemUser(): { uid: number; gid: number } {
  const id = (which: string) => Number(execFileSync('id', [which, 'nobody'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

/** Ends the pooler with this process, even after SIGKILL. Returns a function that stops the watcher. */
function endWithThisProcess(pid: number): () => void {
  const watcher = spawn('sh', ['-c', 'cat; kill "$1"', 'sh', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  watcher.unref()
  return () => watcher.kill()
}
