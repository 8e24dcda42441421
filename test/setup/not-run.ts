/** Programs that tests need and a machine may lack. The closing lines of a run list the tests that did not run. */
import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const OPTIONAL = [
  { name: 'pooler', program: 'pgbouncer', files: ['test/pooler.slow.test.ts'] },
  { name: 'psql', program: 'psql', files: ['test/archives.slow.test.ts'] },
  { name: 'pg_basebackup', program: 'pg_basebackup', files: ['test/point-in-time.slow.test.ts'] },
  { name: 'pg_dump', program: 'pg_dump', files: ['test/dump-import.slow.test.ts'] },
  {
    name: 'redis',
    program: 'redis-server',
    files: ['src/drivers/store/redis-server.slow.test.ts', 'src/drivers/store/redis-tls.slow.test.ts'],
  },
  { name: 'PostgreSQL by TLS', program: 'openssl', files: ['test/postgres-tls.slow.test.ts'] },
  { name: 'redis by TLS', program: 'openssl', files: ['src/drivers/store/redis-tls.slow.test.ts'] },
  { name: 'an older Node.js', program: 'nodejs', files: ['src/cli/node-version.slow.test.ts'] },
  { name: 'systemd', program: 'systemd-analyze', files: ['test/systemd.slow.test.ts'] },
  { name: 'kubectl', program: 'kubectl', files: ['test/kubernetes.slow.test.ts'] },
  { name: 'promtool', program: 'promtool', files: ['test/promtool.slow.test.ts'] },
  { name: 'swift', program: 'swift-proxy-server', files: ['test/swift.slow.test.ts', 'test/swift.nightly.test.ts'] },
  { name: 'zsh', program: 'zsh', files: ['test/shells.slow.test.ts'] },
  { name: 'fish', program: 'fish', files: ['test/shells.slow.test.ts'] },
]

/** Separate package: `npm ci --prefix test/orms` installs it, and generates Prisma's client. */
const ORMS = {
  name: 'orms',
  program: 'npm ci --prefix test/orms',
  files: ['test/orms/orms.slow.test.ts', 'test/orms/settings.slow.test.ts'],
}
export const hasOrms = existsSync(join(import.meta.dirname, '../orms/generated/client.ts'))

/** Debian's folders for programs outside a user's PATH. */
const ELSEWHERE = ['/usr/sbin', '/usr/local/sbin']

/** The drill mounts small file systems. */
const FULL_DISK = { name: 'full disk', program: 'the right to mount', files: ['test/full-disk.slow.test.ts'] }
const CAP_SYS_ADMIN = 21n

export const notRun = [
  ...OPTIONAL.filter(({ program }) => programPath(program) === undefined),
  ...(canMount() ? [] : [FULL_DISK]),
  ...(hasOrms ? [] : [ORMS]),
]

function canMount(): boolean {
  if (process.platform !== 'linux' || programPath('mount') === undefined) return false
  const [, effective = '0'] = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
  return ((BigInt(`0x${effective}`) >> CAP_SYS_ADMIN) & 1n) === 1n
}

export function programPath(name: string): string | undefined {
  const directories = [...(process.env.PATH ?? '').split(delimiter).filter(Boolean), ...ELSEWHERE]
  return directories.map((directory) => join(directory, name)).find(isExecutable)
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
