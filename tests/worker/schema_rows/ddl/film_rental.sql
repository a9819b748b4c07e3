--
-- PostgreSQL database dump
--
SET client_encoding = 'UTF8';
\connect rental
CREATE EXTENSION IF NOT EXISTS plpgsql WITH SCHEMA pg_catalog;
CREATE TYPE public.audience AS ENUM ('everyone', 'teens', 'adults');
CREATE DOMAIN public.year AS integer CONSTRAINT year_check CHECK ((VALUE >= 1901));
CREATE FUNCTION public.touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.last_update = now(); RETURN NEW;
END $$;
CREATE SEQUENCE public.film_id_seq START WITH 1;
CREATE TABLE public.language (
    language_id integer DEFAULT nextval('public.language_id_seq'::regclass) NOT NULL,
    name character(20) NOT NULL
);
CREATE TABLE public.film (
    film_id integer DEFAULT nextval('public.film_id_seq'::regclass) NOT NULL,
    title character varying(255) NOT NULL,
    description text,
    release_year public.year,
    language_id smallint NOT NULL,
    rental_rate numeric(4,2) DEFAULT 4.99 NOT NULL,
    length smallint,
    rating public.audience DEFAULT 'everyone'::public.audience,
    special_features text[],
    CONSTRAINT film_length_check CHECK (((length >= 10) AND (length <= 240)))
);
CREATE TABLE public.actor (
    actor_id serial PRIMARY KEY,
    first_name character varying(45) NOT NULL,
    last_name character varying(45) NOT NULL
);
CREATE TABLE public.film_actor (actor_id smallint NOT NULL, film_id smallint NOT NULL);
CREATE TABLE public.customer (
    customer_id serial PRIMARY KEY,
    first_name character varying(45) NOT NULL,
    last_name character varying(45) NOT NULL,
    email character varying(50),
    city text,
    is_active boolean DEFAULT true NOT NULL,
    create_date date DEFAULT ('now'::text)::date NOT NULL,
    plan character varying(10) CHECK (((plan)::text = ANY ((ARRAY['basic'::character varying, 'gold'::character varying])::text[])))
);
CREATE TABLE public.rental (
    rental_id serial PRIMARY KEY,
    rental_date timestamp without time zone NOT NULL,
    film_id integer NOT NULL,
    customer_id smallint NOT NULL,
    return_date timestamp without time zone
);
COPY public.language (language_id, name) FROM stdin;
1	English; isn't it (
2	Italian
\.
ALTER TABLE ONLY public.film ADD CONSTRAINT film_pkey PRIMARY KEY (film_id);
ALTER TABLE ONLY public.language ADD CONSTRAINT language_pkey PRIMARY KEY (language_id);
ALTER TABLE ONLY public.film_actor ADD CONSTRAINT film_actor_pkey PRIMARY KEY (actor_id, film_id);
ALTER TABLE ONLY public.film ADD CONSTRAINT fk1 FOREIGN KEY (language_id) REFERENCES public.language(language_id);
ALTER TABLE ONLY public.rental ADD CONSTRAINT fk2 FOREIGN KEY (film_id) REFERENCES public.film(film_id);
ALTER TABLE ONLY public.rental ADD CONSTRAINT fk3 FOREIGN KEY (customer_id) REFERENCES public.customer(customer_id);
ALTER TABLE public.film OWNER TO postgres;
GRANT SELECT ON TABLE public.film TO reader;
