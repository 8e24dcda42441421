/** Reads the deployment examples, and the environment of each process of the systemd unit. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseEnv } from 'node:util'

export const EXAMPLES = join(import.meta.dirname, '../examples/deployment')

export const read = (file: string) => readFile(join(EXAMPLES, file), 'utf8')

/** Environment of one process of the unit: its files in the order of the unit. */
export async function environmentOf(instance: string): Promise<NodeJS.Dict<string>> {
  const unit = await read('tenantry@.service')
  const own = [...unit.matchAll(/^Environment=(.*)$/gm)].map(([, pairs = '']) => pairs.replaceAll(' ', '\n')).join('\n')
  const named = [...unit.matchAll(/^EnvironmentFile=\/etc\/tenantry\/(.*)$/gm)].map(([, file = '']) => file)
  const texts = [
    own,
    ...(await Promise.all(named.map((file) => read(`environment/${file.replaceAll('%i', instance)}`)))),
  ]
  return Object.assign({}, ...texts.map((text) => parseEnv(text.replaceAll('%i', instance))))
}
