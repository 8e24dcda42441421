/** Runs `tenantry openapi`: prints the OpenAPI document of all enabled operations, from their declarations. */
import { writeFile } from 'node:fs/promises'
import { openApiDocument } from '../../http/openapi.ts'
import { catalogueOf } from '../../service/catalogue.ts'
import { satellitesOn } from '../../service/main.ts'
import type { OwnInput } from '../parser/own-input.ts'

export async function openapi({ options, terminal, loadConfig }: OwnInput): Promise<void> {
  const config = await loadConfig()
  const { operations } = catalogueOf(satellitesOn(config))
  const document = openApiDocument(operations, config.prefix)
  const text = `${JSON.stringify(document, null, 2)}\n`
  if (options.out === undefined) return terminal.print(text, document)
  await writeFile(options.out, text)
  terminal.print(`wrote ${options.out}\n`, { out: options.out })
}
