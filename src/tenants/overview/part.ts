/** The part of a tenancy with reads over all parts. */
import { commandsOf } from '../../kernel/api/projection.ts'
import type { Part } from '../../kernel/part-definition.ts'
import { accessChecks } from './access-checks.ts'
import { attentionSources } from './attention-sources.ts'
import { operations } from './operations.ts'
import { Overview, type OverviewServices } from './overview.ts'
import { timelineSources } from './timeline-sources.ts'

export const overviewPart: Part<'overview', Overview, OverviewServices> = {
  name: 'overview',
  service: (kernel, services) => new Overview(kernel, services),
  operations,
  commands: commandsOf(operations),
  attention: attentionSources,
  accessChecks,
  timeline: timelineSources,
  stop: (overview) => overview.stop(),
}
