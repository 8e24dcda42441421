-- What the examples keep for each tenant. Run in the storage of every tenant, so no column says whose row it is.

-- up
create table notes (
  id integer generated always as identity primary key,
  title text not null,
  created_at timestamptz(3) not null default now()
);

-- down
drop table notes;
