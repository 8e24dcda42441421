/**
 * Components and hooks for the screens of a host: `import { Table, useOperation } from 'tenantry/console'`. The import map of the page
 * resolves the name.
 */
export type { Body, Input, OperationName, Params, Query, Result } from '../api/contract.ts'
export * from '../api/host.ts'
export { menuEntriesOf, startAction } from '../components/actions.tsx'
export { Autocomplete } from '../components/autocomplete.tsx'
export { Button, Copyable, IconButton, LinkButton } from '../components/base/button.tsx'
export { Code, Json } from '../components/base/code.tsx'
export { Diff } from '../components/base/diff.tsx'
export { Card, Empty, Facts, PageHeader, Section } from '../components/base/page.tsx'
export { ProblemView } from '../components/base/problem.tsx'
export { Badge, Status } from '../components/base/status.tsx'
export { counted, formatBytes, formatNumber } from '../components/base/text.ts'
export { ExactTime, Time } from '../components/base/time.tsx'
export { Chart, type ChartProps } from '../components/chart/chart.tsx'
export type { ChartColor, ChartSeries } from '../components/chart/series.ts'
export { Sparkline } from '../components/chart/sparkline.tsx'
export { Confirm } from '../components/confirm.tsx'
export { Dialog } from '../components/dialog.tsx'
export { Field, Form } from '../components/forms/form.tsx'
export { Selection, useSelected } from '../components/lists/selection.ts'
export { SimpleTable } from '../components/lists/simple-table.tsx'
export type { Column } from '../components/lists/table.tsx'
export { Skeleton, Table } from '../components/lists/table.tsx'
export { MenuTrigger } from '../components/menu.tsx'
export type { MenuEntry } from '../components/menu-entry.ts'
export { Panel } from '../components/panel.tsx'
export { call } from '../data/call.ts'
export { notify } from '../data/notices.ts'
export { Problem } from '../data/problem.ts'
export type { List, Read } from '../data/queries.ts'
export { useAction, useList, useOperation } from '../data/queries.ts'
export { isPermitted, useSession } from '../data/session.ts'
export type {
  Action,
  ActionProps,
  ColumnProps,
  ConsoleModule,
  IconName,
  Screen,
  Tab,
  TenantColumn,
  View,
} from '../module.ts'
export { defineConsoleModule } from '../module.ts'
export { href, linkTo, tenantHref } from '../routing/links.ts'
export { useOpen } from '../routing/open.ts'
export { go, useParams, useSearch, useSetSearch } from '../routing/router.tsx'
