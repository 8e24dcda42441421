/** Runs `tenantry login` and `profile:*`: URLs and tokens of remote services. No command prints a token. */
import { getSession } from '../../tenancy/system-operations.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { remoteCaller } from '../remote/caller.ts'
import { Profiles } from '../remote/profiles.ts'
import { adminUrl, checkedToken } from '../remote/target.ts'

const DEFAULT_NAME = 'default'

/** Stores the profile only if the service accepts the token. */
export async function login({ args, terminal, signal, context, profile = DEFAULT_NAME }: OwnInput): Promise<void> {
  const url = adminUrl(args.url ?? '', 'The URL')
  const token = checkedToken((await terminal.secret(`Token of ${url}`)).trim(), 'The token')
  await remoteCaller({ url, token, source: 'the argument' }, signal).call(getSession, {})
  const profiles = new Profiles(context.env)
  await profiles.write(profile, { url, token })
  await profiles.use(profile)
  terminal.record({ profile, url })
}

export async function listProfiles({ terminal, context }: OwnInput): Promise<void> {
  const profiles = new Profiles(context.env)
  const [names, current] = await Promise.all([profiles.names(), profiles.current()])
  const rows = await Promise.all(
    names.map(async (name) => ({ profile: name, url: (await profiles.read(name)).url, current: name === current })),
  )
  terminal.table(rows)
}

export async function useProfile({ args: { profile }, terminal, context }: OwnInput): Promise<void> {
  await new Profiles(context.env).use(profile)
  terminal.record({ current: profile ?? null })
}

export async function removeProfile({ args: { profile = '' }, terminal, context }: OwnInput): Promise<void> {
  await new Profiles(context.env).remove(profile)
  terminal.record({ profile, removed: true })
}
