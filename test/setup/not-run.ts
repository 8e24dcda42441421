/** Programs that tests need and a machine may lack. The closing lines of a run list the tests that did not run. */
import { execFileSync } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'

const OPTIONAL = [
  { name: 'pooler', program: 'pgbouncer', files: ['test/pooler.slow.test.ts', 'test/pooler/backoffice.slow.test.ts'] },
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
  { name: 'promtool', program: 'promtool', files: ['test/promtool.slow.test.ts', 'test/alerts.rules.slow.test.ts'] },
  {
    name: 'prometheus',
    program: 'prometheus',
    files: ['outages', 'unwritable', 'provider', 'backups', 'worker'].map(
      (drill) => `test/alerts.${drill}.slow.test.ts`,
    ),
  },
  { name: 'swift', program: 'swift-proxy-server', files: ['test/swift.slow.test.ts', 'test/swift.nightly.test.ts'] },
  { name: 'zsh', program: 'zsh', files: ['test/shells.slow.test.ts'] },
  { name: 'fish', program: 'fish', files: ['test/shells.slow.test.ts'] },
]

/** Separate package: `npm ci --prefix test/orms` installs it, and generates Prisma's client. */
const ORMS = {
  name: 'orms',
  program: 'npm ci --prefix test/orms',
  files: ['orms.slow', 'settings.slow', 'synchronization.slow', 'types.nightly'].map(
    (name) => `test/orms/${name}.test.ts`,
  ),
}
export const hasOrms = existsSync(join(import.meta.dirname, '../orms/generated/client.ts'))

/** Separate package: `npm ci --prefix test/frameworks/servers` installs it. */
const SERVERS = {
  name: 'servers',
  program: 'npm ci --prefix test/frameworks/servers',
  files: ['test/frameworks/servers.slow.test.ts'],
}
const hasServers = existsSync(join(import.meta.dirname, '../frameworks/servers/node_modules/.bin/react-router'))

/** The drills mount small file systems. */
const FULL_DISK = {
  name: 'full disk',
  program: 'unshare with the right to mount',
  files: [
    'src/cli/commands/full-disk.slow.test.ts',
    'test/full-disk.slow.test.ts',
    'test/alerts.unwritable.slow.test.ts',
  ],
}

/** Debian's folders for programs outside a user's PATH. */
const ELSEWHERE = ['/usr/sbin', '/usr/local/sbin']

export const notRun = [
  ...OPTIONAL.filter(({ program }) => programPath(program) === undefined),
  ...(hasOrms ? [] : [ORMS]),
  ...(hasServers ? [] : [SERVERS]),
  ...(canMount() ? [] : [FULL_DISK]),
]

function canMount(): boolean {
  try {
    execFileSync('unshare', ['--mount', 'mount', '-t', 'tmpfs', 'tmpfs', tmpdir()], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
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
