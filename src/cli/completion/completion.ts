/** Prints completion scripts, and completions of `tenantry complete -- <words>` from declarations, tenants' ids and profiles. */
import { RootCommand, script } from '@bomb.sh/tab'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import { listTenants } from '../../tenants/operations/tenant-reads.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { COMMON_OPTIONS, type Described } from '../parser/parser.ts'
import { remoteCaller } from '../remote/caller.ts'
import type { RemoteTarget } from '../remote/target.ts'
import { bashScript, zshScript } from './scripts.ts'

const PROGRAM = 'tenantry'
const SHELLS = ['bash', 'zsh', 'fish', 'powershell']
/** Short: an empty list of ids is better than a blocked shell. */
const WAIT_TIMEOUT_MS = 1_000
const MOST_TENANTS = 200
const NAMES_A_TENANT = ['id', 'ids']
const PROFILE = 'profile'

/** Replace the scripts of the library: docs/decisions/completion-scripts.md. */
const OWN: Readonly<Record<string, (program: string) => string>> = { bash: bashScript, zsh: zshScript }

export async function completion({ args: { shell = '' }, terminal }: OwnInput): Promise<void> {
  if (!SHELLS.includes(shell)) throw InvalidRequest(`The shell "${shell}" must be one of ${SHELLS.join(', ')}`)
  const text = OWN[shell]?.(PROGRAM) ?? fromLibrary(shell)
  terminal.print(text, { shell, script: text })
}

function fromLibrary(shell: string): string {
  const lines: string[] = []
  printingTo(lines, () => script(shell, PROGRAM, PROGRAM))
  return `${lines.join('\n')}\n`
}

/** Sources of names. */
export interface Names {
  readonly tenantIds: (prefix: string) => Promise<readonly string[]>
  readonly profiles: () => Promise<readonly string[]>
}

/**
 * Returns the completions of the last word, one on each line, in the protocol of the scripts. Does not reject without
 * names: a shell cannot show an error.
 */
export async function completed(
  commands: readonly Described[],
  words: readonly string[],
  names: Names,
): Promise<string> {
  const command = commands.find(({ name }) => name === words[0])
  const word = words.at(-1) ?? ''
  const wantsTenant = command?.arguments?.some(({ name }) => NAMES_A_TENANT.includes(name)) && !word.startsWith('-')
  const ids = wantsTenant && words.length > 1 ? await names.tenantIds(word).catch(() => []) : []
  const wantsProfile = words.at(-2) === `--${PROFILE}` || command?.arguments?.some(({ name }) => name === PROFILE)
  const profiles = wantsProfile ? await names.profiles().catch(() => []) : []
  const root = new RootCommand()
  for (const { name, summary, arguments: parameters = [], options = [] } of commands) {
    const one = root.command(name, summary)
    for (const parameter of parameters) {
      const values = NAMES_A_TENANT.includes(parameter.name) ? ids : parameter.name === PROFILE ? profiles : []
      one.argument(parameter.name, adding(values), parameter.isRepeatable)
    }
    for (const { flags, summary } of [...options, ...COMMON_OPTIONS]) {
      const flag = flags.replace(/^--/, '').split(' ')[0] ?? ''
      if (flags.includes(' ')) one.option(flag, summary, adding(flag === PROFILE ? profiles : []))
      else one.option(flag, summary)
    }
  }
  const lines: string[] = []
  printingTo(lines, () => root.parse([...words]))
  return `${lines.join('\n')}\n`
}

const adding =
  (values: readonly string[]) =>
  (add: (value: string, description: string) => void): void => {
    for (const value of values) add(value, '')
  }

/** Returns the ids with `prefix` of tenants that are not deleted, or none if no database is running. Starts nothing. */
export async function tenantIdsOf(loadConfig: OwnInput['loadConfig'], prefix: string): Promise<string[]> {
  const [{ Database }, { createLogger }, { readRunning }] = await Promise.all([
    import('../../kernel/database/database.ts'),
    import('../../kernel/base/logger.ts'),
    import('../../service/data-directory.ts'),
  ])
  const config = await loadConfig()
  const url = config.databaseUrl ?? readRunning(config.dataDirectory)?.databaseUrl
  if (!url) return []
  const database = new Database({ url, max: 1 }, createLogger({ level: 'silent' }))
  try {
    const { rows } = await database.sql(
      {
        timeoutMs: WAIT_TIMEOUT_MS,
        text: `select id from multitenancy.tenants
          where starts_with(id, $1) and status <> 'deleted' and purged_at is null order by id limit ${MOST_TENANTS}`,
      },
      [prefix],
    )
    return rows.map(({ id }) => id)
  } finally {
    await database.close()
  }
}

/** Returns the ids of tenants of a remote service with `prefix`. */
export async function remoteTenantIds(target: RemoteTarget, prefix: string): Promise<string[]> {
  const query = { limit: String(MOST_TENANTS), ...(prefix ? { q: prefix } : {}) }
  const { body } = await remoteCaller(target, AbortSignal.timeout(WAIT_TIMEOUT_MS)).call(listTenants, { query })
  const { data } = body as { data: readonly { id: string }[] }
  return data.map(({ id }) => id).filter((id) => id.startsWith(prefix))
}

/** The library prints to the console. */
function printingTo(lines: string[], work: () => void): void {
  const { log } = console
  console.log = (line = '') => lines.push(String(line))
  try {
    work()
  } finally {
    console.log = log
  }
}
