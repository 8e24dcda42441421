/** The day and the time of day of an entry in a list by day. */
const day = new Intl.DateTimeFormat('en', { weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' })
const clock = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })

export const DayName = ({ at }: { at: string }) => <>{day.format(new Date(at))}</>

export const ClockTime = ({ at }: { at: string }) => (
  <time dateTime={at} title={at} className="faint">
    {clock.format(new Date(at))}
  </time>
)
